package sluice;

import io.sluice.spring.CheckCustomizer;
import io.sluice.spring.SluiceRequest;
import jakarta.servlet.http.HttpServletRequest;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;

/** The application of apps.py. */
@SpringBootApplication
@RestController
public class SpringApp {
    public static void main(String[] args) {
        SpringApplication.run(SpringApp.class, args);
    }

    @Bean
    CheckCustomizer caller() {
        return (request, check) -> {
            check.user(request.getHeader("X-User"));
            return request.getRequestURI().startsWith("/api/chat")
                ? check.cost(100).hold("30s") : check;
        };
    }

    @GetMapping("/api/hello")
    Map<String, String> hello(@RequestHeader("X-User") String user) {
        return Map.of("hello", user);
    }

    @PostMapping("/api/chat")
    ResponseEntity<StreamingResponseBody> chat(@RequestParam int tokens,
                                               HttpServletRequest request) {
        if (tokens == 0)
            throw new IllegalStateException("the model has failed");
        return ResponseEntity.ok()
            .header("Content-Type", "text/plain")
            .header("X-Request-Id", "mine")
            .header("Access-Control-Expose-Headers", "ETag")
            .body(out -> {
                out.write("a long answer, ".getBytes(StandardCharsets.UTF_8));
                out.flush();
                while (tokens < 0) { // until the client leaves
                    out.write(new byte[1000]);
                    out.flush();
                }
                SluiceRequest.setCost(request, tokens);
                out.write((tokens + " tokens").getBytes(StandardCharsets.UTF_8));
            });
    }
}
