"""A worker of the audit: reads the number of a check, writes its row, one line each. Started by
``running.py``.
"""

from __future__ import annotations

import json
import sys

from understudy.audit.running import perform, plan


def main() -> None:
    checks = plan(**json.loads(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(perform(checks[int(line)]).to_dict()), flush=True)


if __name__ == "__main__":
    main()
