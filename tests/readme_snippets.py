#!/usr/bin/env python3
"""Checks that the README's programs are cut from compiled examples, and that what it links to is there.

A C++ block of the README follows a line `<!-- examples/FILE.cc [tag] -->` and equals what stands between the two
lines `// [tag]` of that file. `readme_snippets.py --write` puts the examples' text into the README.
"""
import difflib
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?P<head>(?:^<!-- (?P<file>\S+) \[(?P<tag>\w+)\] -->\n)?^```cpp\n)(?P<code>.*?)^```$", re.M | re.S)
LINK = re.compile(r"(?:\]\(|src=\"|href=\")([^)\"#]+)")


def region(file, tag):
    parts = re.split(rf"^[ \t]*// \[{tag}\]\n", (ROOT / file).read_text(), flags=re.M)
    if len(parts) != 3:
        sys.exit(f"{file}: found {len(parts) - 1} lines '// [{tag}]', expected 2")
    return textwrap.dedent(parts[1])


def problems_of(readme):
    blocks = list(BLOCK.finditer(readme))
    if not blocks:
        yield "README.md has no C++ block"
    for block in blocks:
        line = readme[: block.start("code")].count("\n") + 1
        if not block["file"]:
            yield f"README.md:{line}: name the example above this block: <!-- examples/FILE.cc [tag] -->"
        elif block["code"] != (expected := region(block["file"], block["tag"])):
            diff = difflib.unified_diff(block["code"].splitlines(), expected.splitlines(), "README.md",
                                        block["file"], lineterm="")
            yield f"README.md:{line}: differs from {block['file']} [{block['tag']}]\n" + "\n".join(diff)
    for target in LINK.findall(readme):
        if "://" not in target and not (ROOT / target).exists():
            yield f"README.md: links to {target}, which is not there"


def main():
    path = ROOT / "README.md"
    readme = path.read_text()
    if sys.argv[1:] == ["--write"]:
        readme = BLOCK.sub(
            lambda b: b["head"] + (region(b["file"], b["tag"]) if b["file"] else b["code"]) + "```", readme)
        path.write_text(readme)
    problems = list(problems_of(readme))
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
