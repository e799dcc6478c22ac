"""The public API of the libraries, one line for each declaration, in `.ci/api/<module>.txt`.

    python3 .ci/api.py            compares it with what was built, and fails if they differ
    python3 .ci/api.py --update   writes what was built
    python3 .ci/api.py count      the number of declarations and of types in the files; with a directory, in the files there

It needs a debug build (`swift build`), which it reads with `swift-symbolgraph-extract`. `swift-api-digester` is not suitable:
its output lacks `async`, thrown types and default values of parameters, and contains `package` declarations.

A line is `owner | declaration`. The line of a type contains its conformances. The line of a member of a protocol begins with
`requirement`, `default` (the implementation of a requirement) or `extension`.

Every public declaration in the source has a line: types, type aliases, cases, properties, initializers, methods, subscripts
and operators; requirements and their default implementations; and explicit witnesses (`description`, a handwritten `==`).
These have no line: declarations that the compiler synthesizes, names that begin with an underscore, and whether a type can be
copied.
"""

import collections
import difflib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

MODULES = [
    "Trunkline", "TrunklineDiagnostics", "TrunklineFoundation", "TrunklineGateway", "TrunklineHTTP", "TrunklineTelemetry",
    "TrunklineTesting",
]
# The modules that others export: their declarations are documented and listed as those of the others.
EXPORTED = {
    "Trunkline": ["TrunklineCache", "TrunklineCluster", "TrunklineCore", "TrunklineIO", "TrunklineLayouts", "TrunklineLogging"],
    "TrunklineTesting": ["TrunklineLoopback"],
}
DIGEST = pathlib.Path(".ci/api")
TYPES = {"swift.struct", "swift.enum", "swift.class", "swift.actor", "swift.protocol"}
# Conformances that nearly every type has.
UNSAID = {"SendableMetatype", "Copyable", "Escapable", "BitwiseCopyable"}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Tools:
    """The tools next to the compiler, and the directory of the built modules."""

    def __init__(self):
        info = json.loads(output("swiftc", "-print-target-info"))
        self.bin = pathlib.Path(info["paths"]["runtimeResourcePath"]).parents[1] / "bin"
        self.target = info["target"]["unversionedTriple"]
        self.build = pathlib.Path(output("swift", "build", "--show-bin-path").strip())

    def extract(self, module, directory, *options):
        """Writes the module's symbol graph, and those of its extensions of other modules, into a directory."""
        if module in EXPORTED:
            options += (f"-experimental-allowed-reexported-modules={','.join(EXPORTED[module])}",)
        output(
            self.bin / "swift-symbolgraph-extract",
            *("-module-name", module, "-target", self.target, "-I", self.build / "Modules"),
            *("-Xcc", f"-fmodule-map-file={self.build}/CTrunkline.build/module.modulemap"),
            *("-minimum-access-level", "public", "-skip-synthesized-members", *options, "-output-dir", directory),
        )

    def graphs(self, module):
        """The module's symbol graph, and those of its extensions of other modules."""
        with tempfile.TemporaryDirectory() as directory:
            self.extract(module, directory)
            return [json.loads(path.read_text()) for path in sorted(pathlib.Path(directory).glob("*.symbols.json"))]

    def demangled(self, identifier):
        name = output(self.bin / "swift-demangle", "-compact", identifier.replace("s:", "$s", 1))
        return name.strip().rpartition(".")[2]


def constraints(described):
    """`T: Hashable, T.Element == Int`."""
    relation = {"conformance": ": ", "superclass": ": ", "sameType": " == "}
    return [c["lhs"] + relation[c["kind"]] + c["rhs"] for c in described]


def where(words):
    return " where " + ", ".join(words) if words else ""


def lines(graph, tools):
    symbols = {symbol["identifier"]["precise"]: symbol for symbol in graph["symbols"]}
    relations = collections.defaultdict(list)
    for relation in graph["relationships"]:
        relations[relation["source"]].append(relation)

    def own(symbol):
        return constraints(symbol.get("swiftGenerics", {}).get("constraints", []))

    def conformances(identifier, of):
        known = own(of) if of else []
        names = set()
        for relation in relations[identifier]:
            if relation["kind"] not in ("conformsTo", "inheritsFrom"):
                continue
            target, fallback = symbols.get(relation["target"]), relation.get("targetFallback")
            if of is None and fallback and fallback.split(".")[0] in ("Swift", "_Concurrency", "Foundation"):
                continue  # a conformance that the type of another module already has
            if target:
                name = ".".join(target["pathComponents"])
            else:
                name = (fallback or tools.demangled(relation["target"])).rpartition(".")[2]
            if name in UNSAID or name.startswith("_"):
                continue
            more = [c for c in constraints(relation.get("swiftConstraints", [])) if c not in known]
            names.add((relation["kind"] != "inheritsFrom", name + (f" ({where(more).strip()})" if more else "")))
        return [name for _, name in sorted(names)]

    owners = {}
    for identifier, symbol in symbols.items():
        if "location" not in symbol:
            continue  # synthesized by the compiler
        path, kind = symbol["pathComponents"], symbol["kind"]["identifier"]
        declaration = "".join(fragment["spelling"] for fragment in symbol["declarationFragments"])
        declaration = re.sub(r"\s+", " ", declaration).strip()
        if kind in TYPES:
            path = path + [""]
            declared, _, condition = declaration.partition(" where ")
            names = conformances(identifier, symbol)
            if names and kind != "swift.protocol":
                declared += ": " + ", ".join(names)
            declaration = declared + (" where " + condition if condition else "")
        extension = symbol.get("swiftExtension")
        kinds = {relation["kind"] for relation in relations[identifier]}
        if extension and kind not in TYPES:
            member = [r["target"] for r in relations[identifier] if r["kind"] == "memberOf"]
            known = own(symbols[member[0]]) if member and member[0] in symbols else []
            more = [c for c in constraints(extension.get("constraints", [])) if c not in known]
            if " where " not in declaration:
                declaration += where(more)
        if "requirementOf" in kinds or "optionalRequirementOf" in kinds:
            declaration = "requirement " + declaration
        elif "defaultImplementationOf" in kinds:
            declaration = "default " + declaration
        elif extension and (extension.get("typeKind") == "swift.protocol" or extension["extendedModule"] not in OWN):
            declaration = "extension " + declaration
        for relation in relations[identifier]:
            if relation["kind"] == "memberOf" and relation["target"] not in symbols:
                owners[relation["target"]] = ".".join(symbol["pathComponents"][:-1])
        prefix = ".".join(path[:-1])
        yield (prefix, kind not in TYPES, declaration), (prefix + " | " if prefix else "| ") + declaration
    # Types of other modules that conform to protocols of this module.
    for identifier in sorted(relations):
        if identifier not in symbols and (names := conformances(identifier, None)):
            name = owners.get(identifier) or tools.demangled(identifier)
            yield (name, False, ""), f"{name} | extension {name}: {', '.join(names)}"


# The module that is being read, and those that it exports.
OWN = []


def built(module, tools):
    OWN[:] = [module, *EXPORTED.get(module, [])]
    found = set()
    for graph in tools.graphs(module):
        found |= set(lines(graph, tools))
    return [line + "\n" for _, line in sorted(found)]


def count(directory):
    total = [0, 0]
    for module in MODULES:
        declarations = (directory / f"{module}.txt").read_text().splitlines()
        # A conformance of a type of another module is not a declaration.
        declarations = [line for line in declarations if not re.match(r"\S+ \| extension [^ ]+: ", line)]
        types = [line for line in declarations if re.match(r"\S+ \| (@\w+ |final )*(struct|enum|class|actor|protocol) ", line)]
        total = [total[0] + len(declarations), total[1] + len(types)]
        print(f"{module:20} {len(declarations):5} public declarations, {len(types):4} of them types")
    print(f"{'total':20} {total[0]:5} public declarations, {total[1]:4} of them types")


def main(arguments):
    if arguments[:1] == ["count"]:
        return count(pathlib.Path(arguments[1]) if len(arguments) > 1 else DIGEST)
    if arguments not in ([], ["--update"]):
        sys.exit(__doc__)
    tools, differs = Tools(), False
    for module in MODULES:
        path = DIGEST / f"{module}.txt"
        now = built(module, tools)
        if arguments:
            DIGEST.mkdir(exist_ok=True)
            path.write_text("".join(now))
            continue
        before = path.read_text().splitlines(keepends=True) if path.exists() else []
        difference = list(difflib.unified_diff(before, now, str(path), f"{module}, as built", n=0))
        sys.stdout.writelines(difference)
        differs = differs or bool(difference)
    if differs:
        sys.exit(
            "\nThe public API has changed. If this is intended, run `python3 .ci/api.py --update`, and commit .ci/api with a "
            "line in CHANGELOG.md. If it is not intended, make the declaration `package`, or restore it."
        )


if __name__ == "__main__":
    main(sys.argv[1:])
