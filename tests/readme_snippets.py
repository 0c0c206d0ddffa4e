#!/usr/bin/env python3
"""Checks that the programs in the README and in docs/ are cut from compiled examples, and that what they link to is
there.

A C++ block follows a line `<!-- examples/FILE.cc [tag] -->` and equals what stands between the two
lines `// [tag]` of that file. `readme_snippets.py --write` puts the examples' text into the pages.
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


def problems_of(path):
    name, text = path.relative_to(ROOT), path.read_text()
    for block in BLOCK.finditer(text):
        line = text[: block.start("code")].count("\n") + 1
        if not block["file"]:
            yield f"{name}:{line}: name the example above this block: <!-- examples/FILE.cc [tag] -->"
        elif block["code"] != (expected := region(block["file"], block["tag"])):
            diff = difflib.unified_diff(block["code"].splitlines(), expected.splitlines(), str(name),
                                        block["file"], lineterm="")
            yield f"{name}:{line}: differs from {block['file']} [{block['tag']}]\n" + "\n".join(diff)
    for target in LINK.findall(BLOCK.sub("", text)):
        if "://" not in target and not (path.parent / target).exists():
            yield f"{name}: links to {target}, which is not there"


def main():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if sys.argv[1:] == ["--write"]:
        for page in pages:
            page.write_text(BLOCK.sub(
                lambda b: b["head"] + (region(b["file"], b["tag"]) if b["file"] else b["code"]) + "```",
                page.read_text()))
    problems = [problem for page in pages for problem in problems_of(page)]
    if not BLOCK.search(pages[0].read_text()):
        problems.append("README.md has no C++ block")
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
