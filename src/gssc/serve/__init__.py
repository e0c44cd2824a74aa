"""Serves a trained model over HTTP: FastAPI on uvicorn, rows gathered into batches, limits on every request.

A request passes ``protocol`` (its head), ``guard`` (token, number, size, time), ``json_rows`` or ``uploads`` (its
numbers) and ``batching`` (the model), and leaves through ``answers``; ``app`` puts them together and ``server`` runs
them. Needs the extra ``serve``; never imports torch. Nothing is imported here, because ``table_process``, which runs
in a separate process, needs no web library.
"""
