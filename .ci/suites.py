#!/usr/bin/env python3
"""Selects test suites by tag, which `swift test --filter` cannot.

    suites.py targets realThreads [SKIP]          prints the test targets that have suites with the tag
    suites.py filter realThreads TARGET [SKIP]    prints a regular expression for --filter: the suites of a target with the tag
    suites.py without realThreads [SKIP]          prints the test targets that have no suite with the tag, and the files of the
                                                  other targets that the suites with the tag do not need
    suites.py tls                                 prints a regular expression for --filter: the suites that run over TLS, too
    suites.py seeds [SKIP]                        prints a regular expression for --filter: the suites that try more inputs if
                                                  TRUNKLINE_SEEDS is set
    suites.py check                               fails if a suite that uses real sockets or threads does not have the tag, or
                                                  if a suite that only simulates has it

SKIP is a regular expression: suites whose name, `TARGET.SUITE`, it matches count as suites without the tag. A suite is a type at
the top level of a file that contains tests, directly or in an extension. Its tags also apply to nested suites.
"""
import pathlib
import re
import sys

NOTHING = "(?!)"
tests = pathlib.Path(__file__).resolve().parent.parent / "Tests"
declaration = re.compile(r"^(?:@(?!testable)|(?:\w+ )*(?:struct|class|actor|enum|extension) )")
name_of = re.compile(r"\b(?:struct|class|actor|enum|extension) (\w+)")

# Suites that run over TLS, too: those whose subject is what TLS changes. All other code gets the same frames and events.
OVER_TLS = {
    "TrunklineTests": """
        HandshakeTests StateTableTests ConnectingLoopbackTests ConnectionLoopbackTests ProxyTests NulByteTests
        BackpressureTests ReadFairnessTests ReceivedLimitTests CodecLoopbackTests RequestLoopbackTests MatchingLoopbackTests
        StreamingLoopbackTests StreamingLinkTests RequestPartLoopbackTests PushLoopbackTests OneWayLoopbackTests
        ServingLoopbackTests MetricsLoopbackTests ObserverTests TimelineTests
        ClosingTests ClosingFrameTests ClosingFullBufferTests ClosingLoopbackTests DroppedClientTests OrderlyCloseTests
        DrainingTests DrainingReadTests FarewellTests FinalResponseTests WriteFailureTests FateTests
        ResponseStallTests SilentServerLoopbackTests FailoverTests OutageTests ReconnectFailureTests
        ClientLoopbackTests ClusterLoopbackTests ClientSeedTests
        LoopbackServerTests LoopbackServerDeallocationTests PerformReactionTests ReactionLoopbackTests ServerLoadLoopbackTests
        HeavyTests/EndpointSwitchLoopbackTests HeavyTests/DeallocationLoopbackTests HeavyTests/LeakLoopbackTests
        HeavyTests/ServerRestartLoopbackTests HeavyTests/StressLoopbackTests
    """.split(),
    "TrunklineHTTPTests": ["HTTP1SimulationTests"],
}

# A declaration that other files can use, and one that they use without its name.
shared = re.compile(
    r"^(?: {4})?(?!.*\b(?:file)?private\b)(?:@\S+ |\w+ )*"
    r"\b(?:struct|class|actor|enum|protocol|func|let|var|typealias|case) `?(\w+)"
)
declared = re.compile(r"^(?:@\S+ |\w+ )*(struct|class|actor|enum|protocol|typealias) (\w+)")
nameless = re.compile(r"^ {4}(?:\w+ )*(?:init|subscript|func [^\w`\s]+)\W")

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


def tagged(target, tag, skip):
    """The suites of a target that have the tag, and that `skip` does not match."""
    return {
        name: suite
        for name, suite in sorted(suites(target).items())
        if suite.has(tag) and not re.fullmatch(skip, f"{target.name}.{name}")
    }


def seeded(target, skip):
    """The suites of a target that try a part of their inputs unless TRUNKLINE_SEEDS is set."""
    return [
        name
        for name, suite in sorted(suites(target).items())
        if re.search(r"(?<!func )\bseeds\(\d|\.abridged\b|\bexpectConformance\(", suite.body)
        and not re.fullmatch(skip, f"{target.name}.{name}")
    ]


def offers(text, own):
    """The names by which other files can use what a file declares: a set of them for each, all of which are then used."""
    found, extended = set(), None
    for line in lines(text):
        if match := re.match(r"(?:@\S+ |\w+ )*extension (?:\w+\.)*(\w+)", line):
            extended = match[1]
            if ":" in line.partition(" where ")[0]:
                found.add(frozenset([extended]))
            if line.rstrip().endswith("}"):
                extended = None
        elif line.startswith("}"):
            extended = None
        elif extended and nameless.match(line):
            found.add(frozenset([extended]))
        elif (match := shared.match(line)) and (extended or not line.startswith(" ")):
            # A member of a type of another module is used after a dot. That of a type of this one also needs the type.
            name = match[1] if not extended or extended in own else f".{match[1]}"
            found.add(frozenset([name, *own.intersection([extended])]))
    return found


def without(tag, skip):
    for target in targets():
        texts = {file: file.read_text() for file in sorted(target.rglob("*.swift"))}
        needed = {file for suite in tagged(target, tag, skip).values() for file in suite.files}
        if not needed:
            yield target.name
            continue
        own = {match[2] for text in texts.values() for line in lines(text) if (match := declared.match(line))}
        rest = {file: offers(text, own) for file, text in texts.items() if file not in needed}
        words, new = set(), needed
        # What the suites need, what this needs, and so on.
        while new:
            for file in new:
                words.update(re.findall(r"\w+", texts[file]) + re.findall(r"\.\w+", texts[file]))
            new = {file for file, names in rest.items() if any(each <= words for each in names)}
            rest = {file: names for file, names in rest.items() if file not in new}
        for file in rest:
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
    for target, names in OVER_TLS.items():
        found = suites(tests / target)
        for name in names:
            suite, _, nested = name.partition("/")
            if suite not in found or nested and not re.search(rf"\bstruct {nested}\b", found[suite].body):
                problems.append(f"{target} has no suite {name}, which suites.py selects for TLS")
    for file in without("realThreads", NOTHING):
        if file.endswith(".swift") and ".realThreads" in (tests / file).read_text():
            problems.append(f"{file} has a suite with the tag realThreads that this script does not find")
    return problems


match sys.argv[1:]:
    case ["targets", tag, *skip]:
        print(*(target.name for target in targets() if tagged(target, tag, *(skip or [NOTHING]))), sep="\n")
    case ["filter", tag, target, *skip]:
        print(rf"^{target}\.({'|'.join(tagged(tests / target, tag, *(skip or [NOTHING])))})/")
    case ["without", tag, *skip]:
        print(*without(tag, *(skip or [NOTHING])), sep="\n")
    case ["tls"]:
        print("|".join(rf"^{target}\.({'|'.join(names)})/" for target, names in OVER_TLS.items()))
    case ["seeds", *skip]:
        found = {target.name: seeded(target, *(skip or [NOTHING])) for target in targets()}
        print("|".join(rf"^{target}\.({'|'.join(names)})/" for target, names in found.items() if names))
    case ["check"]:
        problems = check()
        sys.exit("\n".join(problems) or 0)
    case _:
        sys.exit(__doc__)
