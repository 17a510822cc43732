package holdfast.interop;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Named values, written as in the query of a URL. */
final class Args {
    private final Map<String, String> values = new LinkedHashMap<>();

    Args(String query) {
        for (String pair : query.split("&")) {
            int eq = pair.indexOf('=');
            if (eq > 0) {
                values.put(decode(pair.substring(0, eq)), decode(pair.substring(eq + 1)));
            }
        }
    }

    boolean has(String key) {
        return values.containsKey(key);
    }

    String text(String key) {
        String v = values.get(key);
        if (v == null) {
            throw new IllegalArgumentException("argument " + key + " is missing");
        }
        return v;
    }

    String text(String key, String otherwise) {
        return values.getOrDefault(key, otherwise);
    }

    long number(String key) {
        return Long.parseLong(text(key));
    }

    long number(String key, long otherwise) {
        return has(key) ? number(key) : otherwise;
    }

    Args set(String key, Object value) {
        values.put(key, String.valueOf(value));
        return this;
    }

    @Override
    public String toString() {
        StringBuilder b = new StringBuilder();
        values.forEach((k, v) -> b.append(b.isEmpty() ? "" : "&").append(encode(k)).append('=').append(encode(v)));
        return b.toString();
    }

    private static String decode(String s) {
        return URLDecoder.decode(s, StandardCharsets.UTF_8);
    }

    private static String encode(String s) {
        return URLEncoder.encode(s, StandardCharsets.UTF_8);
    }
}
