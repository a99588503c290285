package io.sluice.spring;

import io.sluice.client.Verdict;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import org.springframework.web.servlet.HandlerInterceptor;

/** Checks each request before its handler. A denial is a
 * TooManyRequestsException, which an advice renders. */
public final class SluiceInterceptor implements HandlerInterceptor {
    private final SluiceRequest.Checker checker;

    SluiceInterceptor(SluiceRequest.Checker checker) {
        this.checker = checker;
    }

    @Override
    public boolean preHandle(HttpServletRequest request,
                             HttpServletResponse response, Object handler) {
        if (request.getDispatcherType() != DispatcherType.REQUEST)
            return true; // an asynchronous result, or an error page
        Verdict verdict = checker.check(request);

        if (verdict == null)
            return true;
        if (!verdict.allowed())
            throw new TooManyRequestsException(verdict);
        MergingResponse.of(request, response).apply(verdict);
        SluiceRequest.Checker.pace(verdict);
        return true;
    }

    @Override
    public void afterCompletion(HttpServletRequest request,
                                HttpServletResponse response, Object handler,
                                Exception error) {
        if (request.getDispatcherType() != DispatcherType.ERROR)
            checker.end(request, response.getStatus(),
                        error != null && SluiceRequest.isFault(error));
    }
}
