package io.sluice.spring;

import io.sluice.client.Check;
import jakarta.servlet.http.HttpServletRequest;

/**
 * A bean that says who asks and what it costs. It gets the check with method,
 * path, address and principal of the request, and returns it with what it knows;
 * null means that the request is not checked. Several run in their order.
 */
@FunctionalInterface
public interface CheckCustomizer {
    Check customize(HttpServletRequest request, Check check);
}
