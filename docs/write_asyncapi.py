"""Write asyncapi.json anew, as a service with the default configuration serves it. Run by `make docs`."""

import json
from importlib.metadata import version
from pathlib import Path

from messaging.asyncapi import asyncapi_document
from messaging.topics import TopicNames

FILE = Path(__file__).with_name("asyncapi.json")

FILE.write_text(json.dumps(asyncapi_document(TopicNames("plaudit."), version("plaudit")), indent=2) + "\n")
