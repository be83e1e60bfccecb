"""FastMCP's skills provider on a folder of skills, as lean as it can be configured. Says where it serves."""

import socket
import sys
from pathlib import Path

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider

server = FastMCP("bench")
server.add_provider(SkillsDirectoryProvider(Path(sys.argv[1])))
app = server.http_app(path="/mcp", stateless_http=True, json_response=True)

listener = socket.create_server(("127.0.0.1", 0))
print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])
