package io.sluice.client;

import java.io.IOException;
import java.nio.ByteBuffer;

/** A connection whose operations end with a deadline. */
interface Wire {
    /** Writes all bytes. */
    void write(ByteBuffer data, Address.Deadline deadline) throws IOException;

    /** Reads some bytes; -1 is the end of the connection. */
    int read(ByteBuffer into, Address.Deadline deadline) throws IOException;

    /** Is the idle connection still open, with nothing to read? */
    boolean isFresh();

    void close();
}
