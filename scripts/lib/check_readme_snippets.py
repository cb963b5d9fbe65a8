"""Checks that the README's code is the code of the examples, which ctest builds and runs.

A code block below the line
    <!-- snippet: examples/foo.cpp#name -->
must equal what stands in examples/foo.cpp between the lines `// [name]` and `// [/name]`, without common indentation.
"""

import pathlib
import re
import sys
import textwrap

MARKER = re.compile(r"<!--\s*snippet:\s*(?P<file>[^#\s]+)#(?P<name>\S+)\s*-->")
BLOCK = re.compile(MARKER.pattern + r"[ \t]*\n+```[^\n]*\n(?P<text>.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


def region(path: pathlib.Path, name: str) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    stripped = [line.strip() for line in lines]
    first, last = f"// [{name}]", f"// [/{name}]"
    if stripped.count(first) != 1 or stripped.count(last) != 1:
        raise ValueError(f"{path.name} must hold the lines '{first}' and '{last}' once each")
    return textwrap.dedent("\n".join(lines[stripped.index(first) + 1 : stripped.index(last)])).strip("\n")


def problems(root: pathlib.Path) -> list[str]:
    readme = root / "README.md"
    if not readme.exists():
        return []
    text = readme.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    found = []
    if len(blocks) != len(MARKER.findall(text)):
        found.append("a snippet marker is not followed by a code block")
    for block in blocks:
        where = f"{block['file']}#{block['name']}"
        try:
            expected = region(root / block["file"], block["name"])
        except (OSError, ValueError) as error:
            found.append(f"{where}: {error}")
            continue
        if block["text"].strip("\n") != expected:
            line = text.count("\n", 0, block.start()) + 1
            found.append(f"README.md:{line} differs from {where}, which now reads\n{textwrap.indent(expected, '    ')}")
    return found


if __name__ == "__main__":
    found = problems(pathlib.Path(sys.argv[1]))
    for problem in found:
        print(f"maxbatch: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)
