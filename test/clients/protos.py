"""protos -- the messages of the .proto files beside this one.

protoc (Debian: protobuf-compiler) makes descriptors of them when a test begins;
nothing generated is kept.
"""

import os
import subprocess

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

HERE = os.path.dirname(os.path.abspath(__file__))


def load(*names):
    """A function that gives the class of a message by its full name."""
    text = subprocess.run(
        ["protoc", "--proto_path", HERE, "--include_imports",
         "--descriptor_set_out=/dev/stdout", *names],
        check=True, stdout=subprocess.PIPE).stdout
    files = descriptor_pb2.FileDescriptorSet.FromString(text)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)

    def find(name):
        return factory.GetPrototype(pool.FindMessageTypeByName(name))

    return find
