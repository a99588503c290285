-- windows.lua -- the algorithms of core/ that count in windows. It stands behind
-- kinds.lua in one script.
--
-- Leases (see store/lease_cache.h) are stored as sums: f is leased in this window, e
-- in the window before (sliding windows only), d is 1 or, without leases, nil. A
-- lease that ends after a reset or a step of the clock therefore refunds nothing,
-- and a reset keeps leased units used.

-- ---- fixed windows and quotas: a written, b taken ----

function families.window()
    local function window_of(p, tick)
        if p.span > 0 then
            local start = tick - fmod(tick, p.span)
            return start, start + p.span
        elseif tick < p.grain then
            return p.after, p.grain
        elseif tick < p.token then
            return p.grain, p.token
        end
        return p.token, p.finish
    end

    -- The next state of the same window has the same leases.
    local function leased(s, next, still)
        if s.d and still then
            next.d, next.e, next.f = s.d, s.e, s.f
        end
        return next
    end

    local function window_take(p, s, cost, now)
        local at, written = judged(now, s.a)
        local start, finish = window_of(p, at)
        local taken = written >= start and s.b or 0
        local r = { outcome = 0, retry = -1, wait = 0 }
        r.reset = till(finish, now)
        r.next = leased(s, { a = written, b = s.b, c = 0 }, written == s.a)
        if cost > p.capacity then
            r.outcome = 2
        elseif cost > 0 and taken + cost > p.capacity then
            r.outcome = 1
            r.retry = r.reset
        elseif cost > 0 then
            taken = taken + cost
            r.next = leased(s, { a = at, b = taken, c = 0 },
                written == s.a and written >= start)
        end
        r.remaining = max(p.capacity - taken, 0)
        return r
    end

    local function window_adjust(p, s, delta, when, now)
        local at, written = judged(now, s.a)
        local start = window_of(p, at)
        local most = p.kind == "fixed" and COUNT_MOST or MOST + 1
        if delta == 0 or (delta < 0 and when < start) then
            return window_take(p, s, 0, now)
        end
        local taken = (written >= start and s.b or 0) + delta
        local next = leased(s, { a = at, c = 0 },
            written == s.a and written >= start)
        next.b = min(max(taken, next.f or 0), most)
        if next.b == 0 then
            next.a = 0
        end
        local r = window_take(p, next, 0, now)
        r.next = next
        return r
    end

    local function window_life(p, s, now)
        local _, finish = window_of(p, s.a)
        return till(finish, now)
    end

    -- Nothing is refilled within a window: what is left may come back as long
    -- as that lasts.
    local function window_end(p, s, lease, now)
        local at, written = judged(now, s.a)
        local start = window_of(p, at)
        if lease.till <= start then
            return s, true
        elseif written ~= s.a or written < start or (s.f or 0) < lease.all then
            return s, false
        end
        local next = { a = s.a, b = s.b - lease.left, c = 0 }
        if s.f > lease.all then
            next.d, next.e, next.f = 1, 0, s.f - lease.all
        end
        return next, true
    end

    local function window_lease(p, s, n, now)
        local next = window_take(p, s, n, now).next
        local _, finish = window_of(p, next.a)
        next.d, next.e, next.f = 1, 0, (next.f or 0) + n
        return next, min((div(next.a, SLOT) + 2) * SLOT, finish)
    end

    local function window_reset(p, s, now)
        local r = window_take(p, s, 0, now)
        r.next.b = r.next.f or 0
        return r.next
    end

    return { window_take, window_adjust, window_life, window_end,
        window_lease, window_of, reset = window_reset }
end

-- ---- sliding windows: a index, b current, c previous ----

function families.sliding()
    local function sliding_judged(p, s, now)
        local start = s.a * p.span
        local at, mended = judged(now, start)
        if mended == start then
            return at, s
        end
        return at,
            { a = div(at, p.span), b = min(s.b + s.c, COUNT_MOST), c = 0 }
    end

    local function rolled(p, s, at)
        local index = div(at, p.span)
        if index == s.a then
            return { a = s.a, b = s.b, c = s.c, d = s.d, e = s.e, f = s.f }
        elseif index ~= s.a + 1 then
            return { a = index, b = 0, c = 0 }
        elseif s.d and s.f > 0 then
            return { a = index, b = 0, c = s.b, d = 1, e = s.f, f = 0 }
        end
        return { a = index, b = 0, c = s.b }
    end

    local function sliding_when(p, s, cost)
        local room = p.capacity - cost
        local next = (s.a + 1) * p.span
        if s.b <= room then
            return next - muldiv(p.span, room - s.b, s.c)
        end
        return next + p.span - muldiv(p.span, room, s.b)
    end

    local function sliding_take(p, s, cost, now)
        local at, old = sliding_judged(p, s, now)
        local v = rolled(p, old, at)
        local ahead = (v.a + 1) * p.span - at
        local left = max(p.capacity - v.b - muldiv_up(ahead, v.c, p.span), 0)
        local r = { outcome = 0, retry = -1, wait = 0, next = old }
        r.reset = till((v.a + 1) * p.span, now)
        if cost > p.capacity then
            r.outcome = 2
        elseif cost > left then
            r.outcome = 1
            r.retry = till(sliding_when(p, v, cost), now)
        elseif cost > 0 then
            v.b = v.b + cost
            left = left - cost
            r.next = v
        end
        r.remaining = left
        return r
    end

    local function sliding_adjust(p, s, delta, when, now)
        local at, old = sliding_judged(p, s, now)
        local past = div(when, p.span)
        local v = rolled(p, old, at)
        if delta == 0 or (delta < 0 and past + 1 < v.a) then
            return sliding_take(p, s, 0, now)
        end
        if delta < 0 and past < v.a then
            v.c = max(v.c + delta, v.e or 0)
        else
            v.b = min(max(v.b + delta, v.f or 0), COUNT_MOST)
        end
        if v.b == 0 and v.c == 0 then
            v.a = 0
        end
        local r = sliding_take(p, v, 0, now)
        r.next = v
        return r
    end

    local function sliding_life(p, s, now)
        return till((s.a + 2) * p.span, now)
    end

    -- A lease ends with the window that it was taken in, at the latest.
    local function sliding_end(p, s, lease, now)
        local at, old = sliding_judged(p, s, now)
        local past = div(lease.till - 1, p.span)
        local v = rolled(p, old, at)
        if past + 1 < v.a then
            return s, true
        end
        local leased, used = "f", "b"
        if past < v.a then
            leased, used = "e", "c"
        end
        if past > v.a or (v[leased] or 0) < lease.all then
            return s, false
        end
        v[leased] = v[leased] - lease.all
        v[used] = v[used] - lease.left
        if v.e + v.f == 0 then
            v.d, v.e, v.f = nil, nil, nil
        end
        if v.b == 0 and v.c == 0 then
            v.a = 0
        end
        return v, true
    end

    local function sliding_lease(p, s, n, now)
        local at = sliding_judged(p, s, now)
        local next = sliding_take(p, s, n, now).next
        next.d, next.e, next.f = 1, next.e or 0, (next.f or 0) + n
        return next,
            min((div(at, SLOT) + 2) * SLOT, (next.a + 1) * p.span)
    end

    local function sliding_reset(p, s, now)
        local at, old = sliding_judged(p, s, now)
        local v = rolled(p, old, at)
        v.b, v.c = v.f or 0, v.e or 0
        return v
    end

    return { sliding_take, sliding_adjust, sliding_life, sliding_end,
        sliding_lease, reset = sliding_reset }
end
