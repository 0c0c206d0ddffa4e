#!/usr/bin/env python3
"""Prepares the sources of `make docs` for Doxygen, which runs `doxygen_filter.py FILE` on each of them.

Headers: plain comments, `// ...` before a declaration or behind it, become documentation. A comment that
goes on below a line of code, in the same column, still belongs to that line.

Markdown: headings get the anchors of GitHub, prefixed with the name of their page, and links follow. A
link to a file that is not part of the site becomes its text and the path.

`doxygen_filter.py --headers` prints the index of the public headers, a page of its own.
"""

import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["core", "ipc", "envs", "data", "models", "distributed", "replays", "agents", "samplers", "algos",
          "runners", "cli"]
IMAGE = re.compile(r"(!\[[^\]]*\]\()docs/")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\n)+)\]\(([^()\s]+)\)")
COMMENT = r"((?:^//(?! NOLINT).*\n)+)"


def filter_header(text):
    behind = None  # column of the comment behind the last line of code
    for line in text.splitlines():
        code, mark, comment = line.partition("//")
        if not mark or '"' in code or comment.startswith(" NOLINT"):
            behind = None
            yield line
            continue
        comment = re.sub(r"([\\@<>&$#%|])", r"\\\1", comment)
        if code.strip():
            behind = len(code)
        elif behind != len(code):
            behind = None
        yield code + ("///<" if behind is not None else "///") + comment


def anchor(page, heading):
    slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"{page}-{slug}"


def filter_page(path, text):
    """path: of the page, relative to the root."""
    def follow(link):
        words, target = link[1], link[2]
        if "://" in target:
            return link[0]
        file, _, slug = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
        page = pathlib.PurePosixPath(file)
        if page.suffix == ".md":
            return f"[{words}](#{page.stem}-{slug})" if slug else f"[{words}](#{page.stem})"
        if file.startswith("include/") and page.suffix == ".h":
            return f'@ref {file.removeprefix("include/")} "{words.strip("`")}"'
        return words if words.strip("`") == file else f"{words} (`{file}`)"

    stem = pathlib.PurePosixPath(path).stem
    first = True
    parts = re.split(r"(^```.*?^```$|(?:^ {4}[^\n]*\n)+)", text, flags=re.M | re.S)  # code stays as it is
    for i in range(0, len(parts), 2):
        lines = IMAGE.sub(r"\1", LINK.sub(follow, parts[i])).split("\n")
        for k, line in enumerate(lines):
            if heading := re.match(r"#+ (.*)", line):
                lines[k] += " {#" + (stem if first else anchor(stem, heading[1])) + "}"
                first = False
        parts[i] = "\n".join(lines)
    return "".join(parts)


def summary(header):
    """The first sentence about the type or function that the header is named after, or of the header."""
    text, name = header.read_text(), header.stem.replace("_", "_?")
    for declaration in (rf"(?:template.*\n)?(?:class|struct) {name}(?:model|options)?\b",
                        rf".*\b(?:make_|run_)?{name}\(", ""):
        if found := re.search(COMMENT + declaration, text, re.M | re.I):
            words = " ".join(re.sub(r"^ *// ?", "", line) for line in found[1].splitlines())
            sentence = re.match(r".*?(?=[:;] |\.( |$)|  |$)", words)[0].rstrip(".:;")
            sentence += ")" * (sentence.count("(") - sentence.count(")"))
            return re.sub(r"([\\@<>&$#%|])", r"\\\1", sentence) + "."
    return ""


def header_index():
    yield "# Public headers {#headers}\n"
    yield "A program includes them as `shoal/LAYER/NAME.h`. Each layer uses only the layers above it.\n"
    folder = ROOT / "include" / "shoal"
    for layer in sorted(folder.iterdir(), key=lambda f: (LAYERS + [f.name]).index(f.name)):
        yield f"## {layer.name} {{#headers-{layer.name}}}\n\n| header | |\n|---|---|"
        for header in sorted(layer.glob("*.h")):
            path = header.relative_to(ROOT / "include").as_posix()
            yield f'| @ref {path} "{layer.name}/{header.name}" | {summary(header)} |'
        yield ""


def main():
    if sys.argv[1] == "--headers":
        print("\n".join(header_index()))
        return
    path = pathlib.Path(sys.argv[1]).resolve()
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    if name.startswith("build/"):
        print(text, end="")
    elif path.suffix == ".md":
        print(filter_page(name, text), end="")
    else:
        print("\n".join(filter_header(text)))


if __name__ == "__main__":
    main()
