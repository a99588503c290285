package io.sluice.client;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The headers of a response with those of a verdict. What the application has set
 * stays. Lists that the verdict names get what is missing in them. Content-Type
 * belongs to the body: of a denial it is that of the verdict.
 */
public final class HeaderMerge {
    private HeaderMerge() {
    }

    /** The headers of the application, and those of the verdict that it lacks.
     * Names compare without case. */
    public static Map<String, String> merge(Map<String, String> present,
                                            Verdict verdict) {
        Map<String, String> merged = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);

        merged.putAll(present);
        verdict.headers().forEach((name, value) -> {
            String ours = value(name, merged.get(name), verdict);

            if (ours != null)
                merged.put(name, ours);
        });
        return merged;
    }

    /** The value of a header of the verdict beside what is set already (null if
     * it is not); null if the header stays as it is. */
    public static String value(String name, String present, Verdict verdict) {
        String ours = verdict.headers().get(name);

        if (ours == null || isType(name) && verdict.allowed())
            return null;
        if (present == null || isType(name))
            return ours;
        return isList(name, verdict) ? join(present, ours) : null;
    }

    /** Is the header a list that is joined? */
    public static boolean isList(String name, Verdict verdict) {
        return verdict.appendHeaders().stream().anyMatch(name::equalsIgnoreCase);
    }

    public static boolean isType(String name) {
        return "Content-Type".equalsIgnoreCase(name);
    }

    /** Two comma-separated lists as one; items compare without case. */
    public static String join(String present, String added) {
        List<String> items = new ArrayList<>();
        Set<String> seen = new LinkedHashSet<>();

        for (String item : present.split(","))
            if (!item.isBlank() && seen.add(item.strip().toLowerCase(Locale.ROOT)))
                items.add(item.strip());
        if (seen.contains("*"))
            return present;
        for (String item : added.split(","))
            if (!item.isBlank() && seen.add(item.strip().toLowerCase(Locale.ROOT)))
                items.add(item.strip());
        return String.join(", ", items);
    }
}
