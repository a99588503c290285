package io.sluice.spring;

import io.micrometer.core.instrument.MeterRegistry;
import io.sluice.client.SluiceClient;
import io.sluice.micrometer.SluiceMetrics;
import java.util.List;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.servlet.config.annotation.InterceptorRegistry;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;

/** The client, the filter or the interceptor, the advice and the counters. */
@AutoConfiguration(afterName = "org.springframework.boot.actuate.autoconfigure" +
    ".metrics.CompositeMeterRegistryAutoConfiguration")
@EnableConfigurationProperties(SluiceProperties.class)
public class SluiceAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    SluiceClient sluiceClient(SluiceProperties settings,
                              ObjectProvider<SluiceClientCustomizer> customizers) {
        SluiceClient.Builder builder = SluiceClient.builder()
            .onFailure(settings.onFailure())
            .breaker(settings.breaker().failures(), settings.breaker().open())
            .onError(error -> LogFactory.getLog(SluiceClient.class)
                                  .warn("sluice: " + error.getMessage()));

        if (settings.url() != null)
            builder.url(settings.url());
        if (settings.token() != null)
            builder.token(settings.token());
        if (settings.deadline() != null)
            builder.deadline(settings.deadline());
        if (settings.local() != null)
            builder.local(settings.local().limit(), settings.local().window());
        customizers.orderedStream().forEach(one -> one.customize(builder));
        return builder.build();
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    @ConditionalOnProperty(name = "sluice.metrics.enabled", matchIfMissing = true)
    static class MetricsConfiguration {
        @Bean
        SluiceClientCustomizer sluiceMetrics(SluiceProperties settings,
                                             ObjectProvider<MeterRegistry> found) {
            return builder -> found.ifAvailable(registry -> builder.onVerdict(
                new SluiceMetrics(registry, settings.metrics().prefix(),
                                  settings.metrics().tenants())));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    @ConditionalOnClass(WebMvcConfigurer.class)
    static class WebConfiguration {
        @Bean
        @ConditionalOnMissingBean
        DenialHandler sluiceDenialHandler() {
            return DenialHandler::render;
        }

        @Bean
        @ConditionalOnProperty(name = "sluice.web.advice", matchIfMissing = true)
        TooManyRequestsAdvice sluiceAdvice(DenialHandler handler) {
            return new TooManyRequestsAdvice(handler);
        }

        @Bean
        SluiceRequest.Checker sluiceChecker(
            SluiceClient client, SluiceProperties settings,
            ObjectProvider<CheckCustomizer> customizers) {
            List<CheckCustomizer> all = customizers.orderedStream().toList();

            return new SluiceRequest.Checker(client, settings.web(), all);
        }

        @Bean
        FilterRegistrationBean<SluiceFilter> sluiceFilter(
            SluiceRequest.Checker checker, SluiceProperties settings,
            DenialHandler handler) {
            boolean checks = settings.web().mode() == SluiceProperties.Mode.FILTER;
            var bean = new FilterRegistrationBean<>(
                new SluiceFilter(checks ? checker : null, handler));

            bean.setOrder(settings.web().order());
            bean.setAsyncSupported(true);
            bean.setEnabled(settings.enabled() &&
                            settings.web().mode() != SluiceProperties.Mode.OFF);
            return bean;
        }

        @Bean
        WebMvcConfigurer sluiceInterceptor(SluiceRequest.Checker checker,
                                           SluiceProperties settings) {
            return new WebMvcConfigurer() {
                @Override
                public void addInterceptors(InterceptorRegistry registry) {
                    if (settings.enabled() && settings.web().mode() ==
                                                  SluiceProperties.Mode.INTERCEPTOR)
                        registry.addInterceptor(new SluiceInterceptor(checker));
                }
            };
        }
    }
}
