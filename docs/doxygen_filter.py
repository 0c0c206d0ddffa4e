"""Shows Doxygen plain comments as documentation: `// ...` before a declaration, or behind it.

A comment that goes on below a line of code, in the same column, still belongs to that line.
"""

import re
import sys

behind = None  # column of the comment behind the last line of code
for line in open(sys.argv[1], encoding="utf-8"):
    code, mark, text = line.rstrip("\n").partition("//")
    if not mark or '"' in code or text.startswith(" NOLINT"):
        behind = None
        print(line, end="")
        continue
    text = re.sub(r"([\\@<>&$#%|])", r"\\\1", text)
    if code.strip():
        behind = len(code)
    elif behind != len(code):
        behind = None
    print(code + ("///<" if behind is not None else "///") + text)
