package example;

import java.util.Map;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

@RestController
class AiController {
    /** Two buckets: one for the minute, one for the day. */
    @PostMapping("/api/v1/ai/extract")
    Map<String, String> extract() {
        return Map.of("text", "what the document says");
    }

    /** Not limited. */
    @GetMapping("/api/v1/documents")
    Map<String, Object> documents() {
        return Map.of("documents", new String[0]);
    }
}
