#!/usr/bin/env python3
"""Selects test suites by tag, which `swift test --filter` cannot.

    suites.py targets realThreads          prints the test targets that have suites with the tag
    suites.py filter realThreads TARGET    prints a regular expression for --filter: the suites of a target with the tag
    suites.py without realThreads          prints the test targets that have no suite with the tag, and the files of the
                                           other targets that contain nothing else and that no other file needs
    suites.py check                        fails if a suite that uses real sockets or threads does not have the tag, or if
                                           a suite that only simulates has it

A suite is a type at the top level of a file that contains tests, directly or in an extension. Its tags also apply to nested
suites.
"""
import pathlib
import re
import sys

tests = pathlib.Path(__file__).resolve().parent.parent / "Tests"
declaration = re.compile(r"^(?:@(?!testable)|(?:\w+ )*(?:struct|class|actor|enum|extension) )")
name_of = re.compile(r"\b(?:struct|class|actor|enum|extension) (\w+)")

# A declaration that other files can use, after its attributes.
shared = re.compile(
    r"^(?!.*\b(?:file)?private\b)(?:.*[) ])?"
    r"\b(?:struct|class|actor|enum|extension|protocol|func|let|var|typealias) `?(\w+)"
)

# Awaits that only wait for another process, and so need no tag.
harmless = re.compile(r"await aside\b|await #expect\(\s*processExitsWith|await Task\.yield\(\)")
# A test that awaits waits for another thread, unless everything is simulated. Others start threads or open sockets.
real = re.compile(r"(?<!\.)\bawait\b|\bThread\b|\bDispatch\w+|\bpthread_|\bEventLoops\b|\bRawListener\b|\bsocket(?:pair)?\(")
# Begins a simulation.
simulation = re.compile(r"\bSimulatedNetwork\b|\bsimulate\w*\(")
# Must not be used in a simulation.
outside = re.compile(r"\b(?:Thread|EventLoops|RawListener|with(?:Loopback)?Server\w*)\b|\bLoopbackServer\.start\(|\bDispatch\w+")


class Suite:
    def __init__(self):
        self.attributes, self.body, self.files = "", "", set()

    def has(self, trait):
        return re.search(rf"[(, ]\.(?:tags\([^)]*\.)?{trait}\b", self.attributes) is not None


def lines(text):
    """The lines of a file. Those in `#if` at the top level are indented: without this indentation."""
    isConditional = False
    for line in text.splitlines():
        if line.startswith("#if "):
            isConditional = True
        elif line.startswith("#endif"):
            isConditional = False
        yield line.removeprefix("    ") if isConditional else line


def suites(target):
    found = {}
    for file in sorted(target.rglob("*.swift")):
        head, name = "", None
        for line in lines(file.read_text()):
            line = re.sub(r"(^|\s)//.*", "", line)
            if name is None:
                # A declaration begins, with its attributes, and ends, with a brace, in the first column.
                head = head + line + "\n" if head or declaration.match(line) else ""
                match = name_of.search(head)
                if not match:
                    if head and not head.startswith("@"):
                        head = ""
                    continue
                name = match[1]
                suite = found.setdefault(name, Suite())
                suite.attributes += head[: match.start()]
                suite.files.add(file)
                line = head[match.end() :]
                head = ""
                if line.rstrip().endswith("}"):
                    name = None
            elif line.startswith("}"):
                name = None
            suite.body += line + "\n"
    return {name: suite for name, suite in found.items() if "@Test" in suite.body or suite.attributes.startswith("@Suite")}


def targets():
    return sorted(path for path in tests.iterdir() if path.name.endswith("Tests"))


def tagged(target, tag):
    return sorted(name for name, suite in suites(target).items() if suite.has(tag))


def without(tag):
    for target in targets():
        found = suites(target)
        if not any(suite.has(tag) for suite in found.values()):
            yield target.name
            continue
        needed = {file for suite in found.values() if suite.has(tag) for file in suite.files}
        texts = {file: file.read_text() for file in sorted(target.rglob("*.swift"))}
        for file, text in texts.items():
            declared = {match[1] for line in lines(text) if not line.startswith((" ", "/")) and (match := shared.match(line))}
            others = "\n".join(other for path, other in texts.items() if path != file)
            isNeeded = any(name not in found or re.search(rf"\b{name}\b", others) for name in declared)
            if file not in needed and declared and not isNeeded:
                yield str(file.relative_to(tests))


def check():
    problems = []
    for target in targets():
        for name, suite in sorted(suites(target).items()):
            files = ", ".join(sorted(str(file.relative_to(tests)) for file in suite.files))
            if suite.has("realThreads"):
                match = simulation.search(suite.body)
                if match and not outside.search(suite.body):
                    problems.append(f"{files}: {name} uses `{match[0]}` and nothing real, so it needs .simulated")
                continue
            isSimulated = suite.has("simulated")
            match = (outside if isSimulated else real).search(harmless.sub("", suite.body))
            if match:
                lack = ".tags(.realThreads)" if isSimulated else ".simulated or .tags(.realThreads)"
                problems.append(f"{files}: {name} uses `{match[0]}`, so it needs {lack}")
    for file in without("realThreads"):
        if file.endswith(".swift") and ".realThreads" in (tests / file).read_text():
            problems.append(f"{file} has a suite with the tag realThreads that this script does not find")
    return problems


match sys.argv[1:]:
    case ["targets", tag]:
        print(*(target.name for target in targets() if tagged(target, tag)), sep="\n")
    case ["filter", tag, target]:
        print(rf"^{target}\.({'|'.join(tagged(tests / target, tag))})/")
    case ["without", tag]:
        print(*without(tag), sep="\n")
    case ["check"]:
        problems = check()
        sys.exit("\n".join(problems) or 0)
    case _:
        sys.exit(__doc__)
