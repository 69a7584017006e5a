# SPDX-License-Identifier: Apache-2.0
"""onnxruntime behind Python's own HTTP server, a peer of bench/serve: answers
predictions of an ONNX file in the format of TensorFlow Serving. Prints its port.

usage: serve_onnxruntime.py FILE
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
name = session.get_inputs()[0].name
dtype = np.float32 if "float" in session.get_inputs()[0].type else np.int32


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # An answer is one packet.

    def do_POST(self):
        size = int(self.headers["Content-Length"])
        rows = json.loads(self.rfile.read(size))["instances"]
        logits = session.run(None, {name: np.asarray(rows, dtype)})[0]
        body = json.dumps({"predictions": logits.tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
