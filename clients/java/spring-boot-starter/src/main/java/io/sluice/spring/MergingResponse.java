package io.sluice.spring;

import io.sluice.client.HeaderMerge;
import io.sluice.client.Verdict;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.util.Set;
import java.util.TreeSet;

/**
 * A response with the headers of a verdict. What the application sets replaces
 * them, before and after; a list that the verdict names is joined with what the
 * application sets.
 */
final class MergingResponse extends HttpServletResponseWrapper {
    private static final String ATTRIBUTE = MergingResponse.class.getName();

    private Verdict verdict;
    // Headers that the verdict has set and the application has not.
    private final Set<String> ours = new TreeSet<>(String.CASE_INSENSITIVE_ORDER);

    private MergingResponse(HttpServletResponse response) {
        super(response);
    }

    /** The one of this request, or a new one around the response. */
    static MergingResponse of(HttpServletRequest request,
                              HttpServletResponse response) {
        if (request.getAttribute(ATTRIBUTE) instanceof MergingResponse found)
            return found;
        MergingResponse made = new MergingResponse(response);

        request.setAttribute(ATTRIBUTE, made);
        return made;
    }

    void apply(Verdict decided) {
        verdict = decided;
        for (String name : decided.headers().keySet()) {
            String present = present(name);
            String value = HeaderMerge.value(name, present, decided);

            if (value == null)
                continue;
            super.setHeader(name, value);
            if (HeaderMerge.isType(name))
                super.setContentType(value);
            if (present == null)
                ours.add(name);
        }
    }

    /** What is set, all lines of a list as one. */
    private String present(String name) {
        return super.containsHeader(name)
            ? String.join(", ", super.getHeaders(name)) : null;
    }

    private boolean isList(String name) {
        return verdict != null && HeaderMerge.isList(name, verdict) &&
            verdict.headers().keySet().stream().anyMatch(name::equalsIgnoreCase);
    }

    private String listOf(String name) {
        return verdict.headers().entrySet().stream()
            .filter(entry -> entry.getKey().equalsIgnoreCase(name))
            .findFirst().orElseThrow().getValue();
    }

    @Override
    public void setHeader(String name, String value) {
        ours.remove(name);
        super.setHeader(name, value != null && isList(name)
            ? HeaderMerge.join(value, listOf(name)) : value);
    }

    @Override
    public void addHeader(String name, String value) {
        if (ours.contains(name))
            setHeader(name, value);
        else if (isList(name) && super.containsHeader(name))
            super.setHeader(name, HeaderMerge.join(present(name), value));
        else
            super.addHeader(name, value);
    }

    @Override
    public void setIntHeader(String name, int value) {
        setHeader(name, Integer.toString(value));
    }

    @Override
    public void addIntHeader(String name, int value) {
        addHeader(name, Integer.toString(value));
    }

    @Override
    public void reset() {
        super.reset();
        ours.clear();
        if (verdict != null)
            apply(verdict);
    }
}
