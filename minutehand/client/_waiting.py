"""Pauses of a caller's own program. The SDK has nothing of the server, so none of its clocks either."""

import asyncio
import time

pause = time.sleep
pause_async = asyncio.sleep
