"""The console: pages for those who would rather look than ask, at `/console`.

Overview
    A page is a handler that asks operations of the API in this process (`operations.Operations`), as the session's
    caller, and renders what they answer. So the console can do nothing that the API does not allow: keys, scopes,
    budgets, bounds and the audit log are the API's own, and each page shows the requests that it was made from.

        browser -> cookie -> `usecases.sessions` -> caller -> page -> operations of the API -> template -> HTML

Sessions
    A key is exchanged for a session at `/console/login`. The cookie is HttpOnly, SameSite=Strict, and Secure where
    browsers reach the API by HTTPS; it holds a random token that no other route takes. The key is in no URL, no page
    and no log. A session ends after eight hours, by logging out, and with its key.

Forms
    A form changes something only with the session's form token and from this origin, and answers 303, so that no page
    is sent twice by reloading it.

Pages
    Everything works without scripts; `static/console.js` refreshes parts of a page in place and shows events as they
    happen. Nothing is loaded from elsewhere: the Content-Security-Policy allows this origin's own files and no inline
    code. Bodies and headers of callbacks, and of what receivers answered, are masked until they are asked for, which
    the audit log records.
"""
