"""Publish a skill, a section and a slash command, then read them back.

pip install iii-sdk==0.25.0
python quickstart.py
"""

import os

from iii import register_worker

worker = register_worker(os.environ.get("III_URL", "ws://127.0.0.1:49134"))


def call(function_id, payload):
    return worker.trigger({"function_id": function_id, "payload": payload})


def units(_input):
    return {"content": "# Units\n\nTemperatures are in °C, wind is in m/s."}


def forecast(arguments):
    return {"content": f"Do I need an umbrella in {arguments['city']} today?"}


worker.register_function("weather::units", units)
worker.register_function("weather::forecast", forecast)

call("skills::register", {
    "id": "weather",
    "skill": "# Weather\n\nForecasts for any city.\n\nRead [units](iii://weather/weather::units) first.\n",
})
call("prompts::register", {
    "name": "forecast",
    "description": "Ask about today's weather.",
    "arguments": [{"name": "city", "description": "Where", "required": True}],
    "function_id": "weather::forecast",
})

section = call("skills::resources-read", {"uri": "iii://weather/weather::units"})
prompt = call("prompts::mcp-get", {"name": "forecast", "arguments": {"city": "Lisbon"}})
print("iii://weather/weather::units\n\n" + section["contents"][0]["text"] + "\n")
print("/forecast city=Lisbon\n\n" + prompt["messages"][0]["content"]["text"])

# A real worker stays connected: its sections and prompts are served while it runs.
worker.shutdown()
