-- marks.lua -- what a take that is held leaves behind, and what comes back of it:
-- core/hold.h, at the quantum of doubles. It stands before holds.lua in one
-- script.

local function make_marks()
    local function is_bucket(p)
        return p.kind == "bucket" or p.kind == "interval" or p.kind == "leaky"
    end

    local function mark_of(p, s)
        if is_bucket(p) then
            return s.a, s.b + p.holds.r, p.holds.g
        elseif p.kind == "sliding" then
            return s.a * p.span, (s.a + 1) * p.span, 0
        elseif p.kind == "fixed" or p.kind == "quota" then
            local start, finish = p.algorithm[6](p, s.a)
            return start, finish, 0
        end
        return 0, 0, 0
    end

    -- What is surely still used of it comes back. A clock that has stepped back
    -- behind the take can't tell: then nothing does.
    local function bucket_unhold(p, s, amount, m, ends)
        local used_at, drained, state =
            p.algorithm[6], p.algorithm[7], p.algorithm[8]
        local at, h = max(ends, s.a), p.holds
        if not h then -- the value was lost, and with it what was used
            return s
        end
        local left = max(m[1] - h.r, m.cost * p.token - (h.g - m[2]), 0)
        local sure = drained(p, m[0], left, max(at, m[0]))
        local back = min(amount * p.token, sure)
        if back <= 0 or now < m[0] - JITTER then
            return s
        end
        local used = used_at(p, s, s.a, at)
        local next = state(s, at, used)
        local floor = next.d and (next.e + next.f) * p.token or 0
        next.b = max(used - back, floor)
        if next.b == 0 then
            next.a = 0
        end
        h.r = h.r + used - next.b
        return next
    end

    local function unhold(p, s, amount, m, ends)
        local b, c = s.b, s.c
        if is_bucket(p) then
            return bucket_unhold(p, s, amount, m, ends)
        elseif p.kind == "sliding" then
            if s.a * p.span == m[0] then
                b = max(b - amount, s.f or 0)
            elseif (s.a - 1) * p.span == m[0] then
                c = max(c - amount, s.e or 0)
            end
        elseif p.kind == "permits" or p.kind == "level"
            or (s.a >= m[0] and s.a < m[1]) then
            b = max(b - amount, s.f or 0)
        end
        return { a = (b + c > 0) and s.a or 0, b = b, c = c, d = s.d, e = s.e,
            f = s.f }
    end

    return { is_bucket = is_bucket, of = mark_of, unhold = unhold }
end
