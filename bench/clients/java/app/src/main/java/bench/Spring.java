package bench;

import io.github.bucket4j.ConsumptionProbe;
import io.sluice.spring.CheckCustomizer;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.OncePerRequestFilter;

/**
 * One answer three times: /bare without a limit, /sluice with ours, /rival with
 * Bucket4j and Redis. ?u=NAME is the user.
 */
@SpringBootApplication
@RestController
public class Spring {
    private static final byte[] ANSWER =
        "{\"found\":[]}".getBytes(StandardCharsets.UTF_8);

    public static void main(String[] args) {
        SpringApplication.run(Spring.class, args);
    }

    @GetMapping(path = {"/bare", "/sluice", "/rival"},
                produces = "application/json")
    byte[] answer() {
        return ANSWER;
    }

    @Bean
    CheckCustomizer caller() {
        return (request, check) -> check.user(request.getParameter("u"));
    }

    @Bean
    FilterRegistrationBean<Bucket4jFilter> rival() {
        FilterRegistrationBean<Bucket4jFilter> bean =
            new FilterRegistrationBean<>(new Bucket4jFilter());

        bean.addUrlPatterns("/rival");
        return bean;
    }

    /** With the header that the guide of Bucket4j sets. */
    static final class Bucket4jFilter extends OncePerRequestFilter {
        private final Rival rival = new Rival();

        @Override
        protected void doFilterInternal(HttpServletRequest request,
                                        HttpServletResponse response,
                                        FilterChain chain)
            throws ServletException, IOException {
            ConsumptionProbe probe = rival.take(request.getParameter("u"));

            if (!probe.isConsumed()) {
                response.sendError(429);
                return;
            }
            response.setHeader("X-Rate-Limit-Remaining",
                               Long.toString(probe.getRemainingTokens()));
            chain.doFilter(request, response);
        }
    }
}
