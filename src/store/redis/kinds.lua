-- kinds.lua -- the algorithms of core/, line by line, at the quantum of doubles:
-- ticks of a microsecond, all numbers below 2^53. It stands before take.lua in
-- one script; test/conform compares every answer with core/.
--
-- A part `p` has the numbers of its limit, a state `s` is three of its own, and
-- a result has outcome, remaining, retry, reset, wait and the next state.

local JITTER = 1000
local MOST = 9007199254740991
local COUNT_MOST = 4294967295
local SLOT = 500000 -- of leases: they live for one to two of these

local fmod, max, min = math.fmod, math.max, math.min

-- ---- exact integers ----

-- a / b rounded down. fmod is exact, and so is the division of a multiple.
local function div(a, b)
    return (a - fmod(a, b)) / b
end

-- a * b / c rounded down; MOST or more if that is no exact integer. b is cut
-- into digits that are small enough for every product to stay below 2^53.
local function muldiv(a, b, c)
    local product = a * b
    if product <= MOST then
        return div(product, c)
    end
    local high, rest = div(a, c), fmod(a, c)
    local base, digits = 2, {}
    while base * 4 * c <= MOST do
        base = base * 2
    end
    while b > 0 do
        digits[#digits + 1] = fmod(b, base)
        b = div(b, base)
    end
    local whole, left = 0, 0
    for i = #digits, 1, -1 do
        local n = left * base + rest * digits[i]
        whole = whole * base + div(n, c) + high * digits[i]
        left = fmod(n, c)
        if whole > MOST then
            return MOST + 1, 0
        end
    end
    return whole, left
end

local function muldiv_up(a, b, c)
    local product = a * b
    if product <= MOST then
        local left = fmod(product, c)
        return (product - left) / c + (left > 0 and 1 or 0)
    end
    local whole, left = muldiv(a, b, c)
    return whole + (left > 0 and 1 or 0)
end

-- ---- time ----

-- The tick at which a take is judged, and that of the last write, mended.
local function judged(now, written)
    if written <= now then
        return now, written
    elseif written - now <= JITTER then
        return written, written
    end
    return now, now
end

local function till(tick, now)
    return min(max(tick - now, 0), MOST)
end

-- Each family of algorithms is made when the first part needs it: a script is
-- run from its first line, and most sets need one or two.
local families = {}

-- ---- token and leaky buckets: a written, b used ----
--
-- What is leased (see leases.h) stays used until it is given back or its time
-- is over: d is the slot of the last lease, e what was leased in the slot
-- before it, f what in it, in tokens. A lease dies two slots later. d is nil if
-- nothing is leased.

function families.bucket()
    local function drained(p, from, used, to)
        if used == 0 then
            return 0
        elseif p.kind == "interval" then
            local periods = div(to, p.span) - div(from, p.span)
            return max(used - periods * p.count * p.token, 0)
        end
        return max(used - muldiv(to - from, p.count, p.grain), 0)
    end

    local function fallen(p, from, used, most)
        local need = max(used - most, 0)
        if need == 0 then
            return from
        elseif p.kind == "interval" then
            local pour = p.count * p.token
            return (div(from, p.span) + div(need + pour - 1, pour)) * p.span
        end
        return from + muldiv_up(need, p.grain, p.count)
    end

    -- What is leased keeps what is used from falling below it.
    local function used_at(p, s, written, at)
        local from, used = written, s.b
        if s.d then
            local floor = (s.e + s.f) * p.token
            for edge = (s.d + 1) * SLOT, (s.d + 2) * SLOT, SLOT do
                if at < edge then
                    return max(drained(p, from, used, at), floor)
                elseif from < edge then
                    used = max(drained(p, from, used, edge), floor)
                    from = edge
                end
                floor = s.f * p.token
            end
        end
        return drained(p, from, used, at)
    end

    local function bucket_when(p, s, written, most)
        local from, used = written, s.b
        if s.d then
            local floor = (s.e + s.f) * p.token
            for edge = (s.d + 1) * SLOT, (s.d + 2) * SLOT, SLOT do
                if from < edge then
                    local tick = fallen(p, from, used, most)
                    if floor <= most and tick < edge then
                        return tick
                    end
                    used = max(drained(p, from, used, edge), floor)
                    from = edge
                end
                floor = s.f * p.token
            end
        end
        return fallen(p, from, used, most)
    end

    -- The state that is written at `at`, with the leases that still live.
    local function bucket_state(s, at, used)
        local next = { a = at, b = used, c = 0 }
        local slot = s.d and div(at, SLOT)
        if slot and slot <= s.d then
            next.d, next.e, next.f = s.d, s.e, s.f
        elseif slot and slot == s.d + 1 and s.f > 0 then
            next.d, next.e, next.f = slot, s.f, 0
        end
        return next
    end

    -- A clock that has stepped back gives all leases a new life.
    local function bucket_mended(s, written)
        if written == s.a then
            return s
        end
        local next = { a = written, b = s.b, c = 0 }
        if s.d then
            next.d, next.e, next.f = div(written, SLOT), 0, s.e + s.f
        end
        return next
    end

    local function bucket_take(p, s, cost, now)
        local at, written = judged(now, s.a)
        s = bucket_mended(s, written)
        local used = used_at(p, s, written, at)
        local room = p.capacity * p.token
        local r = { outcome = 0, retry = -1, wait = 0, next = s }
        if cost > p.capacity then
            r.outcome = 2
        elseif cost > 0 and used + cost * p.token > room then
            r.outcome = 1
            r.retry = till(bucket_when(p, s, written, room - cost * p.token),
                now)
        else
            if p.kind == "leaky" and used > 0 then
                r.wait = till(bucket_when(p, s, written, 0), now)
            end
            if cost > 0 then
                used = used + cost * p.token
                s = bucket_state(s, at, used)
                r.next = s
            end
        end
        r.remaining = div(max(room - used, 0), p.token)
        r.reset = 0
        if used > 0 then
            r.reset = till(bucket_when(p, s, s.a, 0), now)
        end
        return r
    end

    local function bucket_adjust(p, s, delta, when, now)
        if delta == 0 then
            return bucket_take(p, s, 0, now)
        end
        local at, written = judged(now, s.a)
        s = bucket_mended(s, written)
        local used = used_at(p, s, written, at) + delta * p.token
        local next = bucket_state(s, at, 0)
        local floor = next.d and (next.e + next.f) * p.token or 0
        next.b = min(max(used, floor), MOST)
        if next.b == 0 then
            next.a = 0
        end
        local r = bucket_take(p, next, 0, now)
        r.next = next
        return r
    end

    -- From now until nothing is owed.
    local function bucket_life(p, s, now)
        return till(bucket_when(p, s, s.a, 0), now)
    end

    -- A lease is over before its time: what is left of it comes back, and the
    -- rest may be refilled. The state, and whether it was still known.
    local function bucket_end(p, s, lease, now)
        local at, written = judged(now, s.a)
        s = bucket_mended(s, written)
        local next = bucket_state(s, at, used_at(p, s, written, at))
        local slot = lease.till / SLOT - 2
        local field = next.d and (slot == next.d and "f"
            or slot == next.d - 1 and "e")
        if not field or next[field] < lease.all then
            return s, false
        end
        next[field] = next[field] - lease.all
        next.b = next.b - lease.left * p.token
        if next.e + next.f == 0 then
            next.d, next.e, next.f = nil, nil, nil
        end
        if next.b == 0 then
            next.a = 0
        end
        return next, true
    end

    -- `n` more are taken, and leased. The state, and the end of the lease.
    local function bucket_lease(p, s, n, now)
        local next = bucket_take(p, s, n, now).next
        if not next.d then
            next.d, next.e, next.f = div(next.a, SLOT), 0, 0
        end
        next.f = next.f + n
        return next, (next.d + 2) * SLOT
    end

    return { bucket_take, bucket_adjust, bucket_life, bucket_end,
        bucket_lease, used_at, drained, bucket_state }
end

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

    local function window_take(p, s, cost, now)
        local at, written = judged(now, s.a)
        local start, finish = window_of(p, at)
        local taken = written >= start and s.b or 0
        local r = { outcome = 0, retry = -1, wait = 0 }
        r.reset = till(finish, now)
        r.next = { a = written, b = s.b, c = 0 }
        if cost > p.capacity then
            r.outcome = 2
        elseif cost > 0 and taken + cost > p.capacity then
            r.outcome = 1
            r.retry = r.reset
        elseif cost > 0 then
            taken = taken + cost
            r.next = { a = at, b = taken, c = 0 }
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
        local next = { a = at, b = min(max(taken, 0), most), c = 0 }
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
        local at = judged(now, s.a)
        if lease.till <= window_of(p, at) then
            return s, true
        end
        return window_adjust(p, s, -lease.left, lease.till - 1, now).next,
            s.b >= lease.all
    end

    local function window_lease(p, s, n, now)
        local next = window_take(p, s, n, now).next
        local _, finish = window_of(p, next.a)
        return next, min((div(next.a, SLOT) + 2) * SLOT, finish)
    end

    return { window_take, window_adjust, window_life, window_end,
        window_lease, window_of }
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
            return { a = s.a, b = s.b, c = s.c }
        elseif index == s.a + 1 then
            return { a = index, b = 0, c = s.b }
        end
        return { a = index, b = 0, c = 0 }
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
            v.c = max(v.c + delta, 0)
        else
            v.b = min(max(v.b + delta, 0), COUNT_MOST)
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

    local function sliding_end(p, s, lease, now)
        local at = sliding_judged(p, s, now)
        if div(lease.till - 1, p.span) + 1 < div(at, p.span) then
            return s, true
        end
        return sliding_adjust(p, s, -lease.left, lease.till - 1, now).next,
            s.b + s.c >= lease.all
    end

    local function sliding_lease(p, s, n, now)
        local at = sliding_judged(p, s, now)
        local next = sliding_take(p, s, n, now).next
        return next,
            min((div(at, SLOT) + 2) * SLOT, (next.a + 1) * p.span)
    end

    return { sliding_take, sliding_adjust, sliding_life, sliding_end,
        sliding_lease }
end

-- ---- permits and levels: b held ----

function families.permits()
    local function permits_take(p, s, cost)
        local free = max(p.capacity - s.b, 0)
        local r = { outcome = 0, retry = -1, reset = -1, wait = 0, next = s }
        if cost > p.capacity then
            r.outcome = 2
        elseif cost > free then
            r.outcome = 1
        elseif cost > 0 then
            r.next = { a = 0, b = s.b + cost, c = 0 }
            free = free - cost
        end
        r.remaining = free
        return r
    end

    local function permits_adjust(p, s, delta)
        local held = min(max(s.b + delta, 0), MOST + 1)
        return permits_take(p, { a = 0, b = held, c = 0 }, 0)
    end

    local function permits_life()
        return nil
    end

    return { permits_take, permits_adjust, permits_life }
end

local family_of = {
    bucket = "bucket", interval = "bucket", leaky = "bucket",
    fixed = "window", quota = "window", sliding = "sliding",
    permits = "permits", level = "permits",
}
local made = {}

local function algorithm_of(kind)
    local family = family_of[kind]
    made[family] = made[family] or families[family]()
    return made[family]
end
