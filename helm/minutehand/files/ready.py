"""Waits until every address answers 200: SECONDS URL ... Says what each answered last, and why one is not ready."""

import ssl
import sys
import time
import urllib.error
import urllib.request


def ask(url: str) -> tuple[bool, str]:
    # The certificate's name is its callers' concern; here it is whether the process is ready.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            return True, f"{answer.status} {answer.read(1000).decode()}"
    except urllib.error.HTTPError as error:
        return False, f"{error.code} {error.read(1000).decode()}"
    except OSError as error:
        return False, str(error)


end = time.monotonic() + float(sys.argv[1])
waiting = sys.argv[2:]
while waiting:
    url = waiting[0]
    ready, said = ask(url)
    if ready or time.monotonic() > end:
        print(f"{url}: {said}", flush=True)
        if not ready:
            sys.exit(1)
        waiting.pop(0)
    else:
        time.sleep(1)
