"""Which file knows which, from the index that a debug build leaves, compared with the storeys of `.ci/storeys.txt`.

    python3 .ci/storeys.py             fails if a folder knows what the file does not allow, if a figure is above its limit, or
                                       if a target imports a module that Package.swift does not declare for it
    python3 .ci/storeys.py MODULE      the folders of a module, and how many names of each other folder they know
    python3 .ci/storeys.py A B         a shortest chain of names from file A to file B: paths below `Sources`

A file knows another one if it names a symbol that the other one declares. Names of generic parameters do not count, and
neither does what the compiler adds.
"""

import collections
import ctypes
import json
import pathlib
import re
import subprocess
import sys

RULES = pathlib.Path(".ci/storeys.txt")
STORE = pathlib.Path(".build/debug/index/store")

DEFINITION, REFERENCE, IMPLICIT = 2, 4, 256  # roles of an occurrence: indexstore_symbol_role_t
EXTENSION, GENERIC_PARAMETER = 9, 1013  # kind and subkind of a symbol: an extension defines what it extends
RECORD = 2  # kind of a dependency of a unit


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    def __str__(self):
        return ctypes.string_at(self.data, self.length).decode() if self.length else ""


class Index:
    """The index of a build, read with the library of the compiler (`indexstore/indexstore.h` of LLVM)."""

    pointer = ctypes.c_void_p
    each = ctypes.CFUNCTYPE(ctypes.c_bool, pointer, pointer)
    each_name = ctypes.CFUNCTYPE(ctypes.c_bool, pointer, Text)

    def __init__(self, compiler):
        self.library = ctypes.CDLL(next((compiler / "lib").glob("libIndexStore.*")))
        error = self.pointer()
        self.store = self.call("store_create", self.pointer, str(STORE.resolve()).encode(), ctypes.byref(error))
        if not self.store:
            sys.exit(f"there is no index in {STORE}: run swift build")

    def call(self, name, result, *arguments):
        function = getattr(self.library, f"indexstore_{name}")
        function.restype = result
        return function(*(ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments))

    def text(self, name, value):
        return str(self.call(name, Text, value))

    def collect(self, name, owner, read):
        """What `read` returns for each element of `owner` that is not `None`."""
        found = []

        def visit(_, element):
            value = read(element)
            if value is not None:
                found.append(value)
            return True

        self.call(name, ctypes.c_bool, owner, None, self.each(visit))
        return found

    def records(self):
        """The newest record of each source file: (path, name of the record)."""
        names = []
        visit = self.each_name(lambda _, name: (names.append(str(name)), True)[1])
        self.call("store_units_apply_f", ctypes.c_bool, self.store, 1, None, visit)
        newest = {}
        root = f"{pathlib.Path.cwd()}/"
        for name in names:
            error = self.pointer()
            unit = self.call("unit_reader_create", self.pointer, self.store, name.encode(), ctypes.byref(error))
            if not unit:
                continue

            def read(dependency):
                if self.call("unit_dependency_get_kind", ctypes.c_int, dependency) != RECORD:
                    return None
                path = self.text("unit_dependency_get_filepath", dependency)
                return path, self.text("unit_dependency_get_name", dependency)

            for path, record in self.collect("unit_reader_dependencies_apply_f", unit, read):
                if path.startswith(root) and path.endswith(".swift") and pathlib.Path(path).exists():
                    file = STORE / "v5/records" / record[-2:] / record
                    age = file.stat().st_mtime if file.exists() else 0
                    if age >= newest.get(path, (0,))[0]:
                        newest[path] = (age, record)
            self.call("unit_reader_dispose", None, unit)
        return [(path.removeprefix(root), record) for path, (_, record) in newest.items()]

    def occurrences(self, record):
        """(identifier, name, whether it is a definition) of what a file defines or names."""
        error = self.pointer()
        reader = self.call("record_reader_create", self.pointer, self.store, record.encode(), ctypes.byref(error))
        if not reader:
            return []

        def read(occurrence):
            roles = self.call("occurrence_get_roles", ctypes.c_uint64, occurrence)
            symbol = self.call("occurrence_get_symbol", self.pointer, occurrence)
            if roles & IMPLICIT or self.call("symbol_get_subkind", ctypes.c_int, symbol) == GENERIC_PARAMETER:
                return None
            isDefinition = bool(roles & DEFINITION)
            if isDefinition and self.call("symbol_get_kind", ctypes.c_int, symbol) == EXTENSION:
                return None
            if not isDefinition and not roles & REFERENCE:
                return None
            return self.text("symbol_get_usr", symbol), self.text("symbol_get_name", symbol), isDefinition

        found = self.collect("record_reader_occurrences_apply_f", reader, read)
        self.call("record_reader_dispose", None, reader)
        return found


def compiler_directory():
    info = json.loads(subprocess.run(["swiftc", "-print-target-info"], check=True, stdout=subprocess.PIPE).stdout)
    return pathlib.Path(info["paths"]["runtimeResourcePath"]).parents[1]


def knowledge():
    """For each file below `Sources`, the files that it knows, with the names."""
    index = Index(compiler_directory())
    occurrences = {
        path.removeprefix("Sources/"): index.occurrences(record)
        for path, record in index.records()
        if path.startswith("Sources/")
    }
    defined = {}
    for file, found in occurrences.items():
        for identifier, _, isDefinition in found:
            if isDefinition:
                defined.setdefault(identifier, file)
    knows = {file: collections.defaultdict(set) for file in occurrences}
    for file, found in occurrences.items():
        for identifier, name, isDefinition in found:
            other = defined.get(identifier, file)
            if not isDefinition and other != file:
                knows[file][other].add(name)
    return knows


def cycles(graph):
    """The strongly connected components of more than one node (Tarjan), the largest first."""
    number, low, stack, result = {}, {}, [], []
    for start in graph:
        work = [] if start in number else [(start, iter(graph[start]))]
        if work:
            number[start] = low[start] = len(number)
            stack.append(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        result.append(stack[at:])
                    del stack[at:]
            elif following not in number:
                number[following] = low[following] = len(number)
                stack.append(following)
                work.append((following, iter(graph.get(following, ()))))
            elif following in stack:
                low[node] = min(low[node], number[following])
    return sorted(result, key=len, reverse=True)


def lines(files):
    return sum(len(pathlib.Path("Sources", file).read_text().splitlines()) for file in files)


def reach(knows, start):
    seen, waiting = {start}, [start]
    while waiting:
        for file in knows[waiting.pop()]:
            if file not in seen:
                seen.add(file)
                waiting.append(file)
    return seen


def chain(knows, start, end):
    before, waiting = {start: None}, collections.deque([start])
    while waiting and end not in before:
        file = waiting.popleft()
        for other in sorted(knows[file]):
            if other not in before:
                before[other] = file
                waiting.append(other)
    if end not in before:
        return print(f"{start} does not reach {end}")
    files = [end]
    while before[files[-1]]:
        files.append(before[files[-1]])
    for file, other in zip(files[::-1], files[::-1][1:]):
        print(f"{file} -> {other}: {', '.join(sorted(knows[file][other])[:6])}")


def read_rules():
    """The storeys (folder -> folders that it may know) and the limits (figure -> number) of `.ci/storeys.txt`."""
    storeys, limits = {}, {}
    for line in RULES.read_text().splitlines():
        line = line.split("#")[0].strip()
        if " <= " in line:
            figure, number = line.split(" <= ")
            limits[figure.strip()] = int(number)
        elif line:
            folder, _, others = line.partition(":")
            storeys[folder.strip()] = others.split()
    return storeys, limits


def storey(file, storeys):
    """The storey to which a file belongs: the longest of them that contains it."""
    fitting = [folder for folder in storeys if file == folder or file.startswith(f"{folder}/")]
    return max(fitting, key=len, default=None)


def violations(knows, storeys):
    for file in sorted(knows):
        own = storey(file, storeys)
        if own is None:
            continue
        for other in sorted(knows[file]):
            its = storey(other, storeys)
            # Another module is below: SwiftPM allows no circles.
            if other.split("/")[0] == own.split("/")[0] and its != own and its not in storeys[own]:
                yield f"{file} -> {other}: {', '.join(sorted(knows[file][other])[:5])}"


def figures(knows):
    """What is counted, by the words of the limits."""
    result = {}
    for module in sorted({file.split("/")[0] for file in knows if file.startswith("Trunkline")}):
        files = {file for file in knows if file.startswith(f"{module}/")}
        largest = cycles({file: [other for other in knows[file] if other in files] for file in files})
        result[f"{module}: lines"] = lines(files)
        result[f"{module}: files in the largest cycle"] = len(largest[0]) if largest else 0
    result["TrunklineCore: members of a type"] = largest_type("TrunklineCore")[1]
    for file in knows:
        if file.endswith(("/LinkMachine.swift", "/SocketEventLoop.swift", "/Client+Requests.swift")):
            result[f"{pathlib.Path(file).stem}: files that it reaches"] = len(reach(knows, file))
    return result


# A declaration of a type or an extension in the first column, and of a member in the column of its body.
TYPE = re.compile(r"(?:@\S+ )*(?:public |package |private |fileprivate |final |indirect )*(?:class|struct|actor|enum|extension|protocol) ([\w.]+)")
MEMBER = re.compile(r" {4}(?:@\S+ |[a-z]+(?:\([a-z]+\))? )*(?:func|var|let|subscript|init)\b ?(\([^)]*\))?")


def largest_type(module):
    """The name of the type that has most members, in its declaration and its extensions, and their number."""
    members = collections.Counter()
    for file in pathlib.Path("Sources", module).rglob("*.swift"):
        name = None
        for line in file.read_text().splitlines():
            if match := TYPE.match(line):
                name = match[1]
            elif line.startswith("}"):
                name = None
            elif name and (match := MEMBER.match(line)):
                isPattern = match[1] and re.match(r" {4}.*\b(?:var|let) \(", line)
                members[name] += match[1].count(",") + 1 if isPattern else 1
    return members.most_common(1)[0]


# An import of a module, not of a part of it.
IMPORT = re.compile(r"^(?:@\S+ |[a-z]+ )*import (?:(?:struct|class|enum|func|protocol) )?(\w+)", re.MULTILINE)


def undeclared():
    """Modules that a target imports without declaring them: it would build only after another target that declares them."""
    manifest = json.loads(subprocess.run(["swift", "package", "dump-package"], check=True, stdout=subprocess.PIPE).stdout)
    names = {target["name"] for target in manifest["targets"]}
    for target in manifest["targets"]:
        declared = {target["name"]} | {kind[0] for each in target["dependencies"] for kind in each.values()}
        # What a declared module exports.
        if "Trunkline" in declared:
            declared |= {"TrunklineCore", "TrunklineIO", "TrunklineLayouts", "TrunklineLogging", "TrunklineCluster", "TrunklineCache"}
        if "TrunklineTesting" in declared:
            declared.add("TrunklineLoopback")
        if "TrunklineCore" in declared:
            declared.add("TrunklineIO")
        folder = pathlib.Path(target.get("path") or ("Tests" if target["type"] == "test" else "Sources"))
        folder = folder if target.get("path") else folder / target["name"]
        for file in sorted(folder.rglob("*.swift")):
            for module in sorted(set(IMPORT.findall(file.read_text())) & names - declared):
                yield f"{file} imports {module}, which Package.swift does not declare for {target['name']}"


def matrix(knows, module):
    def folder(file):
        parts = file.split("/")[1:-1]
        return "/".join(parts) or "."

    names = collections.defaultdict(lambda: collections.defaultdict(set))
    for file in knows:
        for other in knows[file] if file.startswith(f"{module}/") else ():
            if other.startswith(f"{module}/") and folder(other) != folder(file):
                names[folder(file)][folder(other)] |= knows[file][other]
    for own in sorted(names):
        print(f"{own:24}", "  ".join(f"{other} {len(known)}" for other, known in sorted(names[own].items())))
    circles = cycles({own: list(names[own]) for own in names})
    print("folders in cycles:", "; ".join(", ".join(sorted(circle)) for circle in circles) or "none")


def main(arguments):
    knows = knowledge()
    if len(arguments) == 1:
        return matrix(knows, arguments[0])
    if len(arguments) == 2:
        return chain(knows, *arguments)
    storeys, limits = read_rules()
    problems = list(violations(knows, storeys)) + list(undeclared())
    for figure, number in figures(knows).items():
        limit = limits.pop(figure, None)
        print(f"{figure:56}{number:8}" + ("" if limit is None else f"  of {limit}"))
        if limit is not None and number > limit:
            problems.append(f"{figure}: {number} is above {limit}")
    problems += [f"{RULES} limits what does not exist: {figure}" for figure in limits]
    missing = [folder for folder in storeys if not pathlib.Path("Sources", folder).exists()]
    problems += [f"{RULES} names a folder that does not exist: {folder}" for folder in missing]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main(sys.argv[1:])
