#!/usr/bin/env python3
"""names.py NAMES LOG -- a scripted DNS server on 127.0.0.1:53.

A line of NAMES is a name and its answers, one after the other: the last is for
all later questions. An answer is addresses joined by commas. LOG has a line for
each question. The time to live is 0.

    rebind.test 192.0.2.7 127.0.0.1      first one address, then another
    mixed.test 192.0.2.7,127.0.0.1       both at once
"""
import ipaddress
import socket
import struct
import sys

names = {}
for line in open(sys.argv[1]):
    name, *answers = line.split()
    names[name] = [answer.split(",") for answer in answers]
log = open(sys.argv[2], "a", buffering=1)
asked = {}
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
log.write("ready\n")
while True:
    question, client = server.recvfrom(512)
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
        at += 1 + question[at]
    kind = struct.unpack(">H", question[at + 1:at + 3])[0]
    name = ".".join(labels)
    script = names.get(name, [[]])
    turn = asked.get((name, kind), 0)
    asked[name, kind] = turn + 1
    found = [ipaddress.ip_address(text) for text in
             script[min(turn, len(script) - 1)]]
    found = [ip for ip in found if {1: 4, 28: 6}.get(kind) == ip.version]
    log.write("%s %d %s\n" % (name, kind, [str(ip) for ip in found]))
    reply = question[:2] + struct.pack(
        ">HHHHH", 0x8180 if name in names else 0x8183, 1, len(found), 0, 0)
    reply += question[12:at + 5]
    for ip in found:
        reply += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(ip.packed))
        reply += ip.packed
    server.sendto(reply, client)
