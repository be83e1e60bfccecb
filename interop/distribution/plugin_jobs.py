"""Plugins of Codex and Copilot CLI, skills of Gemini CLI, and collections as Agent Plugins, with unmodified clients."""

import json
import re

from distribution_jobs import Site, same_files

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
# The fields of the published schema, which allows no others.
FIELDS = {"$schema", "name", "version", "description", "author", "homepage", "repository", "license", "keywords", "extensions"}
NAME = re.compile(r"(?!.*(--|\.\.))[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")


def jobs(options, failure):
    folder = options.cache / "distribution-node" / "node_modules" / ".bin"
    yield f"distribution codex {options.codex}", lambda bench: codex_job(bench, folder, failure)
    yield f"distribution copilot {options.copilot}", lambda bench: copilot_job(bench, folder, failure)
    yield f"distribution gemini {options.gemini}", lambda bench: gemini_job(bench, folder, failure)
    yield "distribution collections", lambda bench: collection_job(bench, folder, failure)


def installed(site, folder, name):
    """Returns the folders of a skill that a client has written."""
    return [path.parent for path in folder.rglob("SKILL.md") if path.parent.name == name and "marketplaces" not in path.parts]


def codex_job(bench, folder, failure):
    site = Site(bench, failure)
    source = site.add("pdf", "One.")
    codex = folder / "codex"
    site.run(codex, "plugin", "marketplace", "add", f"{bench.http}/git/all.git")
    site.run(codex, "plugin", "add", "pdf@skills")
    told = site.run(codex, "debug", "prompt-input", "hello")
    site.check("Does pdf for the tests" in told, "the model is not told of the skill")
    found = installed(site, site.home / ".codex", "pdf")
    site.check(any((path / "SKILL.md").read_bytes() == (source / "SKILL.md").read_bytes() for path in found),
               "the plugin is not in the cache")
    bench.stop_server(site.server)


def copilot_job(bench, folder, failure):
    site = Site(bench, failure)
    source = site.add("pdf", "One.")
    copilot = folder / "copilot"
    site.run(copilot, "plugin", "marketplace", "add", f"{bench.http}/git/all.git")
    site.run(copilot, "plugin", "install", "pdf@skills")
    found = installed(site, site.home / ".copilot", "pdf")
    site.check(any((path / "SKILL.md").read_bytes() == (source / "SKILL.md").read_bytes() for path in found),
               "the plugin is not installed")
    site.check("pdf" in site.run(copilot, "plugin", "list"), "the plugin is not listed")
    bench.stop_server(site.server)


def gemini_job(bench, folder, failure):
    site = Site(bench, failure)
    source = site.add("pdf", "One.")
    gemini = folder / "gemini"
    site.run(gemini, "skills", "install", f"{bench.http}/git/all.git", "--path", "skills/pdf", "--consent")
    same_files(site, source, site.home / ".gemini" / "skills" / "pdf")
    bench.stop_server(site.server)


def check_plugin(site, folder, name):
    """Checks a plugin against the rules of the published schema."""
    manifest = json.loads((folder / "plugin.json").read_text())
    site.check(manifest["$schema"] == SCHEMA, "another schema is named")
    site.check(set(manifest) <= FIELDS, f"unknown fields in {sorted(manifest)}")
    site.check(manifest["name"] == name and NAME.fullmatch(name), f"the name is {manifest['name']}")
    site.check(re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"]), f"the version is {manifest['version']}")
    skills = [path for path in (folder / "skills").iterdir()]
    site.check(skills and all((path / "SKILL.md").is_file() for path in skills), "a folder has no SKILL.md")
    return manifest


def collection_job(bench, folder, failure):
    site = Site(bench, failure)
    pdf = site.add("pdf", "One.")
    site.add("sheet", "One.")
    site.add("other", "One.")
    site.add("pdf", "Two.")
    site.skills("label", "pdf@1", "tested")
    site.skills("collection", "create", "office", "--title", "Office", "--description", "Documents and tables.")
    site.skills("collection", "add", "office", "pdf@tested", "sheet")
    pdf = site.write("pdf", "One.")

    remote, clone = f"{bench.http}/git/collection/office.git", bench.folder / "office"
    site.run("git", "clone", remote, clone)
    site.run("git", "fsck", "--strict", cwd=clone)
    site.check(sorted(path.name for path in (clone / "skills").iterdir()) == ["pdf", "sheet"], "other skills are in the clone")
    same_files(site, pdf, clone / "skills" / "pdf")
    manifest = check_plugin(site, clone, "collection-office")
    site.check(manifest["description"] == "Documents and tables.", "another description")
    check_plugin(site, clone / "dist" / "collection-office", "collection-office")
    check_plugin(site, clone / "dist" / "pdf", "pdf")

    for index, address in enumerate((f"{bench.http}/collection/office", f"{bench.http}/official", remote)):
        project = bench.folder / f"npx-{index}"
        project.mkdir()
        site.run(folder / "skills", "add", address, "--skill", "pdf", "--agent", "claude-code", "--yes", "--copy", cwd=project)
        text = next(project.rglob("SKILL.md")).read_text()
        expected = "Two." if address.endswith("official") else "One."
        site.check(expected in text, f"{address}: another version")

    found = site.run(folder / "skills", "find", "sheet", SKILLS_API_URL=bench.http)
    site.check(f"{bench.http}/skill/sheet@sheet" in found, f"the search found {found}")

    claude = folder / "claude"
    site.run(claude, "plugin", "validate", clone)
    for address, market in (remote, "collection-office"), (f"{bench.http}/.claude-plugin/marketplace.json", "skills"):
        site.run(claude, "plugin", "marketplace", "add", address)
        site.run(claude, "plugin", "install", f"collection-office@{market}")
        details = site.run(claude, "plugin", "list")
        site.check("collection-office" in details, f"{address}: the collection is not installed")
        site.run(claude, "plugin", "uninstall", f"collection-office@{market}")
        site.run(claude, "plugin", "marketplace", "remove", market)

    codex = folder / "codex"
    site.run(codex, "plugin", "marketplace", "add", remote)
    site.run(codex, "plugin", "add", "collection-office@collection-office")
    told = site.run(codex, "debug", "prompt-input", "hello")
    site.check("Does pdf for" in told and "Does sheet for" in told, "the model is not told of the collection")

    site.run(folder / "copilot", "plugin", "install", remote)
    site.check("collection-office" in site.run(folder / "copilot", "plugin", "list"), "Copilot does not list the collection")
    bench.stop_server(site.server)
