"""Reads the function declarations of CUDA's public headers.

The compiler's preprocessor does the hard part: after it there are no macros, and every declaration stands under the name
that the linker sees (`cuMemAlloc` is `cuMemAlloc_v2`). What is left is a small grammar: declarations outside of braces.
"""

import os
import re
import subprocess
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""\s*(?:(?P<marker>\#[^\n]*\n)"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)"""
    r"""|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<mark>::|->|\.\.\.|&&|\|\||<<|>>|[-+*/%=<>!&|^~?:;,.(){}\[\]\#@\\`$]))""",
    re.VERBOSE,
)
LINE_MARKER = re.compile(r'#\s*(?:line\s+)?\d+\s+"([^"]*)"')
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
# Words that say how a function is found, not what it is.
SPECIFIERS = {"extern", "__host__", "__device__", "__cdecl", "__stdcall"}
# A declaration with one of these is no entry point of a library.
NOT_AN_ENTRY_POINT = {"typedef", "static", "inline", "__inline__", "__inline", "template", "using", "namespace", "friend"}


class ParseError(Exception):
    pass


@dataclass
class Parameter:
    text: str  # as declared, without a default argument
    name: str  # "" if the header gives none
    type: str  # the text without the name


@dataclass
class Function:
    name: str
    returns: str
    parameters: list = field(default_factory=list)

    def signature(self):
        return f"{self.returns} {self.name}({', '.join(p.text for p in self.parameters) or 'void'})"


def preprocess(compiler, header, include_dirs, defines=()):
    """The header's text after the C++ preprocessor, line markers kept."""
    command = [*compiler, "-x", "c++", "-std=c++17", "-E", "-w", "-"]
    command += [f"-D{d}" for d in defines] + [f"-I{d}" for d in include_dirs]
    done = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True)
    if done.returncode:
        raise ParseError(f"{header} could not be read: {done.stderr.strip().splitlines()[0]}")
    return done.stdout


def tokens_of(text, roots):
    """Tokens of those lines that come from a file under one of the folders `roots`."""
    inside, at = False, 0
    while True:
        match = TOKEN.match(text, at)
        if not match:
            if text[at:].strip():
                raise ParseError(f"cannot read {text[at:at + 40]!r}")
            return
        at = match.end()
        if match["marker"]:
            line = LINE_MARKER.match(match["marker"])
            if line:
                path = os.path.realpath(line[1])
                inside = any(path.startswith(root + os.sep) for root in roots)
        elif inside:
            yield match["word"] or match["number"] or match["string"] or match["mark"]


def top_level_statements(tokens):
    """Statements outside of braces. `extern "C" {` opens nothing; a statement with a body ends with the marker "{}"."""
    statement, depth, transparent = [], 0, 0
    for token in tokens:
        if depth:  # inside parentheses, brackets, or a body
            statement.append(token)
            depth += (token in OPENING) - (token in CLOSING)
            if depth == 0 and token == "}":
                body_of_type = statement[0] in ("typedef", "struct", "union", "enum", "class")
                if not body_of_type and "=" not in statement:
                    yield ["{}"]  # a function with a body: not imported from anywhere
                    statement = []
        elif token == "{" and statement[-2:] == ["extern", '"C"']:
            transparent, statement = transparent + 1, []
        elif token == "}" and transparent and not statement:
            transparent -= 1
        elif token == ";":
            if statement:
                yield statement
            statement = []
        else:
            statement.append(token)
            depth += token in OPENING


def without_attributes(statement):
    """Drops `__attribute__((...))`, `[[...]]`, `noexcept` and the specifiers."""
    kept, at = [], 0
    while at < len(statement):
        token = statement[at]
        double_bracket = token == "[" and statement[at + 1 : at + 2] == ["["]
        if token in ("__attribute__", "__declspec", "alignas", "__asm__", "asm") or double_bracket:
            at += not double_bracket
            depth = 0
            while True:
                depth += (statement[at] in OPENING) - (statement[at] in CLOSING)
                at += 1
                if depth == 0:
                    break
        elif token in SPECIFIERS or token == "noexcept" or token == '"C"':
            at += 1
        else:
            kept.append(token)
            at += 1
    return kept


def joined(tokens):
    text = " ".join(tokens)
    text = re.sub(r"\s+([,)\]*&])", r"\1", text)
    return re.sub(r"([(\[])\s+", r"\1", text)


def split_at_commas(tokens):
    parts, depth = [[]], 0
    for token in tokens:
        depth += (token in OPENING) - (token in CLOSING)
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


TYPE_WORDS = {"const", "volatile", "struct", "enum", "union", "unsigned", "signed", "long", "short", "int", "char", "float",
              "double", "void", "bool"}


def parameter(tokens):
    if "=" in tokens:
        tokens = tokens[: tokens.index("=")]
    text = joined(tokens)
    pointer_to_function = re.search(r"\(\*\s*(\w+)\s*\)\s*\(", text)
    if pointer_to_function:
        return Parameter(text, pointer_to_function[1], text.replace(pointer_to_function[1], "", 1))
    end = tokens.index("[") if "[" in tokens else len(tokens)
    words = [t for t in tokens[:end] if re.match(r"[A-Za-z_]", t)]
    last = tokens[end - 1]
    named = last in words and last not in TYPE_WORDS and (
        len([w for w in words if w not in ("const", "volatile", "struct", "enum", "union")]) > 1
        or "*" in tokens[: end - 1] or "&" in tokens[: end - 1]
    )
    if not named:
        return Parameter(text, "", text)
    return Parameter(text, last, joined(tokens[: end - 1] + tokens[end:]))


def function_of(statement):
    """The function that a statement declares, or None."""
    if NOT_AN_ENTRY_POINT & set(statement) or statement == ["{}"]:
        return None
    tokens = without_attributes(statement)
    if "(" not in tokens or tokens[-1] != ")" or "=" in tokens[: tokens.index("(")]:
        return None
    opening = tokens.index("(")
    if opening < 2 or not re.match(r"[A-Za-z_]\w*$", tokens[opening - 1]) or "operator" in tokens:
        return None
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at] in OPENING) - (tokens[at] in CLOSING)
        if depth == 0 and at != len(tokens) - 1:
            return None  # something follows the parameters: a variable with a constructor, a pointer to a function
    inner = tokens[opening + 1 : -1]
    function = Function(tokens[opening - 1], joined(tokens[: opening - 1]))
    if inner and inner != ["void"]:
        function.parameters = [parameter(part) for part in split_at_commas(inner)]
    return function


def functions_of(compiler, header, include_dirs, defines=()):
    """Every function that the header, with what it includes from the same folders, declares: name -> Function."""
    roots = [os.path.realpath(d) for d in include_dirs]
    text = preprocess(compiler, header, include_dirs, defines)
    found = {}
    for statement in top_level_statements(tokens_of(text, roots)):
        function = function_of(statement)
        if function:
            found.setdefault(function.name, function)
    return found
