"""Converts the documentation catalogs of all libraries with DocC, and checks them.

    python3 .ci/docs.py               converts and checks
    python3 .ci/docs.py --output DIR  also keeps the site in DIR, which must be new or empty: `python3 -m http.server -d DIR`, then
                                      open http://localhost:8000

The site is the catalogs, merged by DocC, and the files of `.ci/site`: the page at `/`, which leads to the landing page, the
settings of DocC, and a style sheet, which every page links to.

It needs a debug build (`swift build`). It fails if:

- DocC has a warning, such as a link that leads nowhere;
- a public declaration has no documentation;
- a page leaves symbols to DocC's automatic groups ("Instance Properties"), instead of naming them under `## Topics`;
- the site lacks a file that a browser asks for on every page, or `/` leads nowhere.
"""

import json
import pathlib
import re
import shutil
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


def merge(archives, site):
    """Merges the catalogs into one site, and adds the files of `.ci/site` to it."""
    catalogs = [archives / f"{module}.doccarchive" for module in MODULES]
    # Without images of their own, the cards of the other styles would all show the same symbol.
    landing = ["--synthesized-landing-page-name", "Trunkline", "--synthesized-landing-page-topics-style", "list"]
    subprocess.run(["docc", "merge", *catalogs, *landing, "--output-path", site], check=True)
    shutil.copytree(".ci/site", site, dirs_exist_ok=True)
    for page in site.glob("documentation/**/index.html"):
        # Next to DocC's own style sheet, and after it.
        link = r'(<link href="([^"]*/css/)index\.[^"]*" rel="stylesheet">)'
        page.write_text(re.sub(link, r'\1<link href="\2trunkline.css" rel="stylesheet">', page.read_text()))


def missing(site):
    """What a browser would not find in the site."""
    settings = site / "theme-settings.json"
    if not settings.exists() or not isinstance(json.loads(settings.read_text()), dict):
        yield "the site has no theme-settings.json, which DocC loads on every page"
    root = site / "index.html"
    text = root.read_text() if root.exists() else ""
    # With and without the automatic redirection.
    ways = {"redirection": r'http-equiv="refresh" content="0; url=([^"]+)"', "link": r'<a href="([^"]+)">'}
    for way, pattern in ways.items():
        target = re.search(pattern, text)
        if not target:
            yield f"the site's /index.html has no {way}"
            continue
        page = target[1].rstrip("/")
        if not (site / page / "index.html").exists() or not (site / "data" / f"{page}.json").exists():
            yield f"the {way} of the site's /index.html leads to {target[1]}, which does not exist"
    for page in sorted(site.glob("documentation/**/index.html")):
        for kind, file in re.findall(r'<(script|link) [^>]*?(?:src|href)="([^"]+)"', page.read_text()):
            if not (site / file.lstrip("/")).exists():
                yield f"{page.relative_to(site)} has a {kind} of {file}, which does not exist"
        if "/css/trunkline.css" not in page.read_text():
            yield f"{page.relative_to(site)} does not link to /css/trunkline.css"


def main(arguments):
    if arguments and (len(arguments) != 2 or arguments[0] != "--output"):
        sys.exit(__doc__)
    if arguments and pathlib.Path(arguments[1]).is_dir() and any(pathlib.Path(arguments[1]).iterdir()):
        sys.exit(f"{arguments[1]} is not empty")  # DocC would refuse it at the end
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
        if not problems:
            site = pathlib.Path(arguments[1] if arguments else f"{directory}/site")
            merge(archives, site)
            problems += missing(site)
        pages = sum(1 for _ in archives.rglob("data/documentation/**/*.json"))
    if problems:
        sys.exit("\n".join(problems))
    print(f"{pages} pages in {len(MODULES)} catalogs, without warnings")


if __name__ == "__main__":
    main(sys.argv[1:])
