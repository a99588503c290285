package io.sluice.client;

/**
 * The daemon answered with an error. Status 4xx, but not 429, is an error of the
 * program: the check is invalid, or the token is wrong. It never passes.
 */
public final class RefusedException extends SluiceException {
    private final int status;
    private final String code;
    private final String detail;

    RefusedException(int status, String code, String detail) {
        super(status >= 400 && status < 500 && status != 429
                  ? null : Failure.STATUS,
              detail != null ? detail : "the daemon answered " + status);
        this.status = status;
        this.code = code;
        this.detail = detail;
    }

    @Override
    public Integer status() {
        return status;
    }

    @Override
    public String code() {
        return code;
    }

    @Override
    public String detail() {
        return detail;
    }
}
