package example;

import io.sluice.spring.CheckCustomizer;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** An API with limits by the plan of the user. See README.md. */
@SpringBootApplication
public class Application {
    record Account(String id, String plan) {
    }

    /** Who has which subscription; a database in your application. */
    private static final Map<String, Account> ACCOUNTS = Map.of(
        "ann@example.org", new Account("4711", "PRO_MONTHLY"),
        "bob@example.org", new Account("4712", "STARTER_YEARLY"),
        "eve@example.org", new Account("4713", "BUSINESS_MONTHLY"),
        "fred@example.org", new Account("4714", null)); // no subscription: free

    public static void main(String[] args) {
        SpringApplication.run(Application.class, args);
    }

    /** The caller of a request: user and plan by the e-mail of the sign-in. A
     * caller who is not signed in, or is unknown, is not limited. */
    @Bean
    CheckCustomizer caller() {
        return (request, check) -> {
            // X-User stands for your sign-in; never trust such a header of a
            // client. With Spring Security: request.getUserPrincipal().getName()
            String email = request.getHeader("X-User");
            Account account = email == null ? null : ACCOUNTS.get(email);

            return account == null
                ? null : check.user(account.id()).plan(account.plan());
        };
    }
}
