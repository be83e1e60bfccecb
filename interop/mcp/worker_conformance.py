"""Worker with the content that the official conformance suite expects."""

from worker import says, serve, text

# One transparent pixel, and a wave file without samples.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        },
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

HEADER_SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}

def embedded(uri, words):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": words}}


def result(*contents, **more):
    return lambda _input: {"content": list(contents), **more}


def register(worker):
    register_tools(worker)
    register_changes(worker)
    register_prompts(worker)
    register_skills(worker)


def register_tools(worker):
    resource = embedded("test://mixed-content-resource", '{"test":"data","value":123}')
    worker.tool("test_simple_text", result(text("This is a simple text response for testing.")))
    worker.tool("test_image_content", result(IMAGE))
    worker.tool("test_audio_content", result(AUDIO))
    worker.tool("test_embedded_resource", result(embedded("test://embedded-resource", "An embedded resource.")))
    worker.tool("test_multiple_content_types", result(text("Multiple content types test:"), IMAGE, resource))
    worker.tool("test_error_handling", result(text("This tool intentionally returns an error"), isError=True))
    worker.tool("json_schema_2020_12_tool", result(text("ok")), schema=SCHEMA_2020_12)
    worker.tool("test_x_mcp_header", result(text("ok")), schema=HEADER_SCHEMA)
    # Functions can neither send requests nor log messages to the client; the suite checks that nothing is sent.
    worker.tool("test_logging_tool", result(text("Nothing was logged.")))
    worker.tool("test_streaming_elicitation", result(text("Nothing was asked.")))


def register_changes(worker):
    """Registers tools that change a list: every call adds the entry if absent and removes it otherwise."""
    tools, prompts = [], []

    def change_tools(_input):
        if tools:
            tools.pop().unregister()
        else:
            tools.append(worker.tool("test_now_and_then", result(text("ok"))))
        return "The tools have changed."

    def change_prompts(_input):
        if prompts:
            worker.call("prompts::unregister", {"name": prompts.pop()})
        else:
            prompts.append("test_now_and_then")
            worker.register_prompt(prompts[0], "fixture::prompt-test_simple_prompt")
        return "The prompts have changed."

    worker.tool("test_trigger_tool_change", change_tools)
    worker.tool("test_trigger_prompt_change", change_prompts)


def register_prompts(worker):
    def with_arguments(given):
        return says(text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))

    def with_resource(given):
        resource = embedded(given["resourceUri"], "Embedded resource content for testing.")
        return says(resource, text("Please process the embedded resource above."))

    worker.prompt("test_simple_prompt", lambda _input: says(text("This is a simple prompt for testing.")))
    worker.prompt("test_prompt_with_arguments", with_arguments, arguments=required("arg1", "arg2"))
    worker.prompt("test_prompt_with_embedded_resource", with_resource, arguments=required("resourceUri"))
    worker.prompt("test_prompt_with_image", lambda _input: says(IMAGE, text("Please analyze the image above.")))


def required(*names):
    return [{"name": name, "description": f"The argument {name}", "required": True} for name in names]


def register_skills(worker):
    """Registers a document without frontmatter and one with sections. `bundles.py` imports bundles."""
    worker.function("fixture::section", lambda _input: {"content": "# Section\n\nFrom a function.\n"})
    worker.skill("plain-notes", "# Plain notes\n\nA skill without frontmatter.\n")
    worker.skill("with-sections", "# With sections\n\nSee iii://with-sections/fixture::section for more.\n")


serve(register)
