#!/usr/bin/env python3
"""A tool: the date and the time. Standard input: {"zone": "here", or a name such as "UTC"}."""
import datetime
import json
import sys
import zoneinfo

zone = json.load(sys.stdin)["zone"]
now = datetime.datetime.now(None if zone == "here" else zoneinfo.ZoneInfo(zone))
print(now.strftime("%A, %Y-%m-%d %H:%M"))
