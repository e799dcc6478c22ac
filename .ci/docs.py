"""Converts the documentation catalogs of all libraries with DocC, and checks them.

    python3 .ci/docs.py               converts and checks
    python3 .ci/docs.py --output DIR  also merges the catalogs into one site: `python3 -m http.server -d DIR`, then open
                                      http://localhost:8000/documentation/trunkline/

It needs a debug build (`swift build`). It fails if:

- DocC has a warning, such as a link that leads nowhere;
- a public declaration has no documentation;
- a page leaves symbols to DocC's automatic groups ("Instance Properties"), instead of naming them under `## Topics`.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # or the import below leaves a directory behind

from api import MODULES, Tools

# The libraries whose extensions of other modules have pages of their own. The extensions that TrunklineHTTP and
# TrunklineTesting make of Trunkline have none: with a page for them, links to the articles of Trunkline lead there instead.
EXTENDING = {"Trunkline", "TrunklineFoundation"}


def convert(module, graphs, archives, dependencies):
    """Converts one catalog. Returns the output of DocC, and whether it succeeded."""
    command = ["docc", "convert", f"Sources/{module}/Documentation.docc"]
    command += ["--additional-symbol-graph-dir", graphs / module, "--output-path", archives / f"{module}.doccarchive"]
    command += ["--fallback-display-name", module, "--fallback-bundle-identifier", module]
    command += ["--fallback-default-module-kind", "Library", "--enable-experimental-external-link-support"]
    for dependency in dependencies:
        command += ["--dependency", archives / f"{dependency}.doccarchive"]
    if dependencies:
        command.append("--warnings-as-errors")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout, done.returncode == 0


def undocumented(module, graphs):
    """The public declarations without a documentation comment. Symbols that the compiler synthesizes have no location."""
    for path in sorted((graphs / module).glob("*.symbols.json")):
        for symbol in json.loads(path.read_text())["symbols"]:
            if "location" in symbol and "docComment" not in symbol and symbol["kind"]["identifier"] != "swift.extension":
                yield f"{module}: {'.'.join(symbol['pathComponents'])} has no documentation"


def uncurated(module, archives):
    """The automatic groups of the module's pages.

    DocC makes a group "Default Implementations" and its pages for members that satisfy a requirement of a protocol, even if
    they are under a topic. These do not count.
    """
    pages = archives / f"{module}.doccarchive/data/documentation"
    for path in sorted(pages.rglob("*.json")):
        if path.stem.endswith("-implementations"):
            continue
        for group in json.loads(path.read_text()).get("topicSections", []):
            if group.get("generated") and group["title"] != "Default Implementations":
                names = ", ".join(identifier.rpartition("/")[2] for identifier in group["identifiers"])
                page = path.relative_to(pages).with_suffix("")
                yield f"{page}: not under ## Topics, so in the group \"{group['title']}\": {names}"


def main(arguments):
    if arguments and (len(arguments) != 2 or arguments[0] != "--output"):
        sys.exit(__doc__)
    tools, problems = Tools(), []
    with tempfile.TemporaryDirectory() as directory:
        graphs, archives = pathlib.Path(directory, "graphs"), pathlib.Path(directory, "archives")
        archives.mkdir()
        for module in MODULES:
            (graphs / module).mkdir(parents=True)
            tools.extract(module, graphs / module, *(["-emit-extension-block-symbols"] if module in EXTENDING else []))
            problems += undocumented(module, graphs)
        # The libraries link to each other in both directions. The first pass writes the archives against which the second
        # pass checks its links. The warnings of the first pass are ignored.
        for module in MODULES:
            convert(module, graphs, archives, [])
        for module in MODULES:
            text, succeeded = convert(module, graphs, archives, [other for other in MODULES if other != module])
            if not succeeded:
                problems.append(f"{module}: docc convert\n{text}")
            problems += uncurated(module, archives)
        if arguments and not problems:
            site = [archives / f"{module}.doccarchive" for module in MODULES]
            names = ["--synthesized-landing-page-name", "Trunkline"]
            subprocess.run(["docc", "merge", *site, *names, "--output-path", arguments[1]], check=True)
        pages = sum(1 for _ in archives.rglob("data/documentation/**/*.json"))
    if problems:
        sys.exit("\n".join(problems))
    print(f"{pages} pages in {len(MODULES)} catalogs, without warnings")


if __name__ == "__main__":
    main(sys.argv[1:])
