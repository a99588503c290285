package io.sluice.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;

/** TCP or a unix socket: a channel that does not block, and its selector. */
final class PlainWire implements Wire {
    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;

    /** Connects. The channel is the caller's if this throws. */
    PlainWire(SocketChannel channel, SocketAddress to, Address.Deadline deadline)
        throws IOException {
        this.channel = channel;
        channel.configureBlocking(false);
        selector = Selector.open();
        try {
            key = channel.register(selector, 0);
            if (!channel.connect(to)) {
                do {
                    await(SelectionKey.OP_CONNECT, deadline);
                } while (!channel.finishConnect());
            }
        } catch (IOException | RuntimeException e) {
            selector.close();
            throw e;
        }
    }

    private void await(int what, Address.Deadline deadline) throws IOException {
        key.interestOps(what);
        selector.select(deadline.left());
        selector.selectedKeys().clear();
        if (Thread.currentThread().isInterrupted())
            throw new InterruptedIOException("the thread was interrupted");
    }

    @Override
    public void write(ByteBuffer data, Address.Deadline deadline)
        throws IOException {
        while (data.hasRemaining())
            if (channel.write(data) == 0)
                await(SelectionKey.OP_WRITE, deadline);
    }

    @Override
    public int read(ByteBuffer into, Address.Deadline deadline)
        throws IOException {
        for (;;) {
            // An answer is hardly ever there at once: to try first would cost a
            // system call.
            await(SelectionKey.OP_READ, deadline);
            int got = channel.read(into);

            if (got != 0) {
                deadline.left();
                return got;
            }
        }
    }

    @Override
    public boolean isFresh() {
        try {
            return channel.read(ByteBuffer.allocate(1)) == 0;
        } catch (IOException e) {
            return false;
        }
    }

    @Override
    public void close() {
        try {
            channel.close();
            selector.close();
        } catch (IOException e) {
            // It is closed.
        }
    }
}
