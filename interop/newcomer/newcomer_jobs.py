"""First use: the README on a pseudo-terminal, and the programs that it names, unmodified."""

import json
import sys
from pathlib import Path

import bundles

HERE = Path(__file__).resolve().parent
WALK_SECONDS = 600
SECONDS = 180


def jobs(options, failure):
    program = options.cache / "newcomer-node" / "node_modules" / ".bin"
    yield "newcomer README", walk
    yield f"newcomer npx skills {options.npx_skills}", lambda bench: installer(bench, failure, program / "skills")
    yield f"newcomer claude {options.claude_code}", lambda bench: claude(bench, failure, program / "claude")
    yield f"newcomer codex {options.codex}", lambda bench: codex(bench, failure, program / "codex")
    yield f"newcomer gemini {options.gemini}", lambda bench: gemini(bench, failure, program / "gemini")


def walk(bench):
    bench.count(bench.run("walk", [sys.executable, str(HERE / "walk.py"), bench.server_binary], seconds=WALK_SECONDS))


def installer(bench, failure, program):
    """Installs all skills of a running server into a project."""
    server, bus = bench.start_server()
    folder = bundles.add(bench, bus)
    project, home = directories(bench)
    command = [str(program), "add", bench.http, "--yes", "--skill", "*", "--agent", "claude-code"]
    bench.run("npx-skills", command, seconds=SECONDS, cwd=project, HOME=str(home))
    for skill in folder.iterdir():
        installed = next(iter(project.glob(f".*/skills/{skill.name}/SKILL.md")), None)
        if installed is None or installed.read_bytes() != (skill / "SKILL.md").read_bytes():
            raise failure(f"{skill.name} was not installed as it is")
        bench.checks += 1
    bench.stop_server(server)


def claude(bench, failure, program):
    """Adds the server to Claude Code, over HTTP and over stdio, and lets it connect."""
    server, bus = bench.start_server()
    bundles.add(bench, bus)
    project, home = directories(bench)
    for name, command in [
        ("http", ["--transport", "http", "skills", f"{bench.http}/mcp"]),
        ("stdio", ["skills-stdio", "--", bench.server_binary, "mcp", "--url", bus]),
    ]:
        bench.run(f"claude-add-{name}", [str(program), "mcp", "add", *command], seconds=SECONDS, cwd=project,
                  HOME=str(home))
    listed = bench.run("claude-list", [str(program), "mcp", "list"], seconds=SECONDS, cwd=project, HOME=str(home))
    if listed.stdout().count("Connected") != 2:
        raise failure(f"claude mcp list: {listed.stdout()}")
    bench.checks += 2
    bench.stop_server(server)


def codex(bench, failure, program):
    """Writes the settings of Codex beside others, and lets it read them."""
    project, home = directories(bench)
    connect(bench, home, "codex", home / ".codex" / "config.toml",
            '# Mine.\nmodel = "m"\n\n[mcp_servers]\nother = { command = "true" }\n\n[tui]\nnotifications = true\n')
    for name, command in [("skills", bench.server_binary), ("other", "true")]:
        read = bench.run(f"codex-{name}", [str(program), "mcp", "get", name, "--json"], seconds=SECONDS, cwd=project,
                         HOME=str(home))
        if json.loads(read.stdout())["transport"]["command"] != command:
            raise failure(f"codex mcp get {name}: {read.stdout()}")
        bench.checks += 1


def gemini(bench, failure, program):
    """Writes the settings of Gemini CLI beside others, and lets it connect."""
    project, home = directories(bench)
    connect(bench, home, "gemini", home / ".gemini" / "settings.json",
            '{\n  // Mine.\n  "mcpServers": {\n    "other": { "command": "true" }\n  }\n}\n')
    (home / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(project): "TRUST_FOLDER"}))
    listed = bench.run("gemini-list", [str(program), "mcp", "list"], seconds=SECONDS, cwd=project, HOME=str(home))
    text = listed.stdout() + listed.stderr()
    if f"skills: {bench.server_binary} mcp (stdio) - Connected" not in text or "other: true" not in text:
        raise failure(f"gemini mcp list: {text}")
    bench.checks += 2


def connect(bench, home, client, settings, text):
    settings.parent.mkdir(parents=True)
    settings.write_text(text)
    bench.run(f"connect-{client}", [bench.server_binary, "connect", client, "--write"], seconds=SECONDS, cwd=home,
              HOME=str(home))


def directories(bench):
    project, home = bench.folder / "project", bench.folder / "home"
    project.mkdir()
    home.mkdir()
    return project, home
