"""sluice_client -- ask a Sluice daemon whether a request may pass."""

from .client import AsyncClient, AsyncHold, Client, Hold
from .fallback import Breaker
from .verdict import (DeniedError, RefusedError, SluiceError, Verdict,
                      merge_headers)
from .webhook import WebhookError, verify_webhook

__all__ = ["AsyncClient", "AsyncHold", "Breaker", "Client", "DeniedError",
           "Hold", "RefusedError", "SluiceError", "Verdict", "WebhookError",
           "merge_headers", "verify_webhook"]
__version__ = "0.1.0"
