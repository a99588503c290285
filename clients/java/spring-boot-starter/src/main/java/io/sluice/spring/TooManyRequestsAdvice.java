package io.sluice.spring;

import io.sluice.client.DeniedException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.web.bind.annotation.ControllerAdvice;
import org.springframework.web.bind.annotation.ExceptionHandler;

/** Renders denials: those of the interceptor, and those that a controller
 * throws. An advice of the application comes first. */
@ControllerAdvice
@Order(Ordered.LOWEST_PRECEDENCE)
public class TooManyRequestsAdvice {
    private final DenialHandler handler;

    TooManyRequestsAdvice(DenialHandler handler) {
        this.handler = handler;
    }

    @ExceptionHandler(DeniedException.class)
    public void deny(DeniedException denied, HttpServletRequest request,
                     HttpServletResponse response) throws IOException {
        MergingResponse.of(request, response).apply(denied.verdict());
        response.setStatus(denied.verdict().status());
        handler.handle(request, response, denied.verdict());
    }
}
