package io.sluice.client;

import java.io.IOException;
import java.nio.ByteBuffer;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;

/** TLS over another wire. */
final class TlsWire implements Wire {
    private final Wire wire;
    private final SSLEngine engine;
    private final ByteBuffer out; // encrypted, to be written
    private final ByteBuffer in;  // encrypted, has been read
    private ByteBuffer plain;     // decrypted, to be read

    TlsWire(Wire wire, SSLEngine engine, Address.Deadline deadline)
        throws IOException {
        this.wire = wire;
        this.engine = engine;
        out = ByteBuffer.allocate(engine.getSession().getPacketBufferSize());
        in = ByteBuffer.allocate(engine.getSession().getPacketBufferSize());
        in.flip();
        plain = ByteBuffer.allocate(
            engine.getSession().getApplicationBufferSize());
        plain.flip();
        engine.beginHandshake();
        handshake(deadline);
    }

    private void handshake(Address.Deadline deadline) throws IOException {
        for (;;) {
            switch (engine.getHandshakeStatus()) {
            case NEED_TASK -> engine.getDelegatedTask().run();
            case NEED_WRAP -> wrap(ByteBuffer.allocate(0), deadline);
            case NEED_UNWRAP, NEED_UNWRAP_AGAIN -> {
                if (!unwrap() && fill(deadline) < 0)
                    throw new SSLException(
                        "the connection was closed while TLS began");
            }
            default -> {
                return;
            }
            }
        }
    }

    private void wrap(ByteBuffer data, Address.Deadline deadline)
        throws IOException {
        out.clear();
        if (engine.wrap(data, out).getStatus() == SSLEngineResult.Status.CLOSED)
            throw new SSLException("the connection is closed");
        out.flip();
        wire.write(out, deadline);
    }

    private int fill(Address.Deadline deadline) throws IOException {
        in.compact();
        try {
            return wire.read(in, deadline);
        } finally {
            in.flip();
        }
    }

    /** Decrypts one record; false if more bytes are needed. */
    private boolean unwrap() throws IOException {
        plain.compact();
        try {
            SSLEngineResult result = engine.unwrap(in, plain);

            switch (result.getStatus()) {
            case BUFFER_UNDERFLOW -> {
                return false;
            }
            case BUFFER_OVERFLOW -> plain = ByteBuffer.allocate(
                plain.capacity() * 2).put(plain.flip());
            case CLOSED -> closed = true;
            default -> {
            }
            }
            return true;
        } finally {
            plain.flip();
        }
    }

    private boolean closed;

    @Override
    public void write(ByteBuffer data, Address.Deadline deadline)
        throws IOException {
        while (data.hasRemaining())
            wrap(data, deadline);
    }

    @Override
    public int read(ByteBuffer into, Address.Deadline deadline)
        throws IOException {
        while (!plain.hasRemaining()) {
            if (closed || !unwrap() && fill(deadline) < 0)
                return -1;
            HandshakeStatus state = engine.getHandshakeStatus();

            if (state != HandshakeStatus.NOT_HANDSHAKING &&
                state != HandshakeStatus.FINISHED && !closed)
                handshake(deadline); // a new key, or a ticket
        }
        int size = Math.min(into.remaining(), plain.remaining());

        into.put(into.position(), plain, plain.position(), size);
        into.position(into.position() + size);
        plain.position(plain.position() + size);
        return size;
    }

    @Override
    public boolean isFresh() {
        return !closed && !plain.hasRemaining() && !in.hasRemaining() &&
            wire.isFresh();
    }

    @Override
    public void close() {
        wire.close();
    }
}
