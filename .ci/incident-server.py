"""A server for the incidents of `incidents.py`, in a process of its own.

A frame is ca fe, the type (2 bytes), the serial (4), the status (2), the length of the body (4), and the body. Pings have the
type 0, pushes 1, announcements of a shutdown 2, logins 0x11; every other request is echoed. Prints its port, and a line for
each login. With some options it is another service, or a proxy.
"""

import argparse
import asyncio
import os
import signal
import ssl
import struct
import sys
import threading

HEADER = struct.Struct(">2sHIHI")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    parser.add_argument("--client-roots", help="require a certificate of the client")
    parser.add_argument("--token", help="require a login with this token")
    parser.add_argument("--delay", type=float, default=0, help="seconds before each answer")
    parser.add_argument("--wrong-every", type=int, default=0, help="answer every n-th request with a wrong serial, too")
    parser.add_argument("--pushes", type=int, default=0, help="pushes a second")
    parser.add_argument("--leave-after", type=float, default=0, help="announce a shutdown on each link after these seconds")
    parser.add_argument("--idle-limit", type=float, default=0, help="close a link that is idle for these seconds")
    parser.add_argument("--banner", help="send this text, and understand nothing")
    parser.add_argument("--mute", action="store_true", help="answer nothing")
    parser.add_argument("--proxy", choices=["refuse", "cut"], help="be an HTTP proxy: refuse credentials, or cut the tunnel")
    return parser.parse_args()


class Link:
    def __init__(self, options, reader, writer):
        self.options, self.reader, self.writer = options, reader, writer
        self.count = 0

    def write(self, type, serial, body, status=0):
        if not self.writer.is_closing():
            self.writer.write(HEADER.pack(b"\xca\xfe", type, serial, status, len(body)) + body)

    async def run(self):
        pusher = asyncio.create_task(self.push()) if self.options.pushes else None
        if self.options.leave_after:
            asyncio.get_running_loop().call_later(self.options.leave_after, self.write, 2, 0, b"")
        try:
            if self.options.banner:
                self.writer.write(self.options.banner.encode())
            if self.options.banner or self.options.mute:
                while await self.reader.read(1000):
                    pass
                return
            while True:
                header = await asyncio.wait_for(self.reader.readexactly(HEADER.size), self.options.idle_limit or None)
                _, type, serial, _, length = HEADER.unpack(header)
                self.answer(type, serial, await self.reader.readexactly(length))
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError):
            pass
        finally:
            if pusher:
                pusher.cancel()
            self.writer.close()

    def answer(self, type, serial, body):
        if type == 0x11:
            print("login", flush=True)
            return self.write(type, serial, b"", 0 if body.decode() == self.options.token else 401)
        if type == 0:
            return self.write(type, serial, body)
        self.count += 1
        if self.options.wrong_every and self.count % self.options.wrong_every == 0:
            self.write(type, serial + 5000, body)
        if self.options.delay:
            asyncio.get_running_loop().call_later(self.options.delay, self.write, type, serial, body)
        else:
            self.write(type, serial, body)

    async def push(self):
        while True:
            for _ in range(self.options.pushes // 20):
                self.write(1, 0, b"news")
            await asyncio.sleep(0.05)


async def be_proxy(mode, reader, writer):
    """Answers CONNECT, and forwards nothing."""
    while (await reader.readline()).strip():
        pass
    if mode == "refuse":
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    else:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.sleep(0.5)
    writer.close()


def end_with_input():
    """Ends with the process that started this one."""
    sys.stdin.read()
    os._exit(0)


def end(server):
    """Ends the process. It stops listening first: while the system closes the links of a process that was killed, it may still
    accept new ones."""
    server.close()
    os._exit(0)


async def main():
    options = arguments()
    context = None
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.tls)
        if options.client_roots:
            context.load_verify_locations(options.client_roots)
            context.verify_mode = ssl.CERT_REQUIRED
    serve = lambda reader, writer: Link(options, reader, writer).run()
    if options.proxy:
        serve = lambda reader, writer: be_proxy(options.proxy, reader, writer)
    server = await asyncio.start_server(serve, options.host, options.port, ssl=context)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end, server)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


threading.Thread(target=end_with_input, daemon=True).start()
asyncio.run(main())
