-- cells.lua -- what lies in Redis: how a part is asked for, how its state is
-- read and written. It stands behind kinds.lua in one script.
--
-- A value is "1:SHAPE:A:B:C", with ":D:E:F" behind it where something is leased
-- (see kinds.lua and windows.lua), and ";R;X;Z;G;T" where something is held (see holds.lua).
-- What is of another shape, or no value of ours, counts as nothing, and is
-- replaced by what is taken next; so are permits of a limit that has another
-- kind now, and the reverse. A key of another type belongs to another program:
-- it is not touched, and the whole call is refused (`p.alien`).
--
-- Permits are a sorted set, so that an operator sees who holds them and until
-- when: "NAME:COST:LIFE" by the microsecond at which it expires; "#SHAPE"
-- by how many are out in all, below zero; "@" by when that was written, likewise;
-- and "!" if some were taken without a hold.

local FOR_GOOD = 315360000000 -- ms; ten years, for what no clock ends

-- Ms that a value outlives what it says. A time that is handed in may stand
-- still while the server's runs on.
local asks_server = string.sub(ARGV[2], 1, 1) == "~"
local MARGIN = asks_server and 1000 or 86400000

local op = ARGV[1]
local now = tonumber(string.match(ARGV[2], "%d+"))
if asks_server then
    local time = redis.pcall("TIME")
    if time[1] then
        now = tonumber(time[1]) * 1000000 + tonumber(time[2])
    end
end

-- Twelve words from words[at + 1] on. A cost of -1 takes nothing and needs one.
local function read_part(key, words, at)
    local cost = tonumber(words[at + 8])
    local beside = tonumber(words[at + 12])
    local counts = words[at + 1] == "penalty"
    return {
        key = key,
        kind = words[at + 1], shape = words[at + 2],
        count = tonumber(words[at + 3]),
        capacity = tonumber(words[at + 4]),
        span = tonumber(words[at + 5]),
        grain = tonumber(words[at + 6]), token = tonumber(words[at + 7]),
        cost = max(cost, 0), least = math.abs(cost),
        when = tonumber(words[at + 9]),
        finish = tonumber(words[at + 10]),
        after = tonumber(words[at + 11]),
        beside = counts and 0 or beside, counts = counts and beside or 0,
        algorithm = algorithm_of(words[at + 1]),
    }
end

local function whole(n)
    return string.format("%.0f", n)
end

-- ---- permits ----

local function read_permits(p)
    local s = { a = 0, b = 0, c = 0 }
    local list = redis.pcall("ZRANGE", p.key, 0, 3, "WITHSCORES")
    local written = 0
    if list.err then
        local value = redis.pcall("GET", p.key)
        p.alien = type(value) ~= "string"
            or not string.find(value, "^1:%d+:%d+:%d+:%d+")
        p.other, p.replaced = true, not p.alien
        return s, p.replaced
    end
    for i = 1, #list, 2 do
        local first = string.sub(list[i], 1, 1)
        if first == "!" then
            p.firm = true
        elseif first == "@" then
            written = -tonumber(list[i + 1])
        elseif first ~= "#" then
            p.holds = p.holds or { x = tonumber(list[i + 1]) }
        elseif string.sub(list[i], 2) == p.shape then
            s.b = -tonumber(list[i + 1])
        end
    end
    if p.holds then
        p.holds.t = written
    end
    if s.b <= 0 then -- whatever that is, nothing is out
        p.replaced, p.holds = list[1] ~= nil, nil
        p.other = p.replaced
        s.b = 0
    end
    return s, p.replaced and not p.firm
end

-- It expires with the last hold, unless a permit was taken without a hold.
local function write_permits(p, s)
    if s.b == 0 or p.replaced then
        redis.call("DEL", p.key)
    end
    if s.b == 0 then
        return
    end
    redis.call("ZADD", p.key, whole(-s.b), "#" .. p.shape, whole(-now), "@")
    if p.expires then
        redis.call("ZADD", p.key, whole(p.expires), p.member)
    end
    local life = FOR_GOOD
    local last = redis.call("ZRANGE", p.key, -1, -1, "WITHSCORES")
    if p.firm then
        redis.call("ZADD", p.key, whole(-MOST), "!")
    elseif tonumber(last[2]) > 0 then
        life = div(max(tonumber(last[2]) - now, 0), 1000) + MARGIN
    end
    redis.call("PEXPIRE", p.key, whole(min(life, FOR_GOOD)))
end

-- ---- all others ----

-- What stands behind the three: leases and holds.
local function read_more(p, s, text)
    local leases, holds = string.match(text, "^([%d:]*)([%d;]*)$")
    local d, e, f = string.match(leases or "", "^:(%d+):(%d+):(%d+)$")
    local r, x, z, g, t =
        string.match(holds or "", "^;(%d+);(%d+);(%d+);(%d+);(%d+)$")
    if not leases or (leases ~= "" and not d) or (holds ~= "" and not r) then
        return false
    end
    if d then
        s.d, s.e, s.f = tonumber(d), tonumber(e), tonumber(f)
    end
    if r then
        p.holds = { r = tonumber(r), x = tonumber(x), z = tonumber(z),
            g = tonumber(g), t = tonumber(t) }
    end
    return (not d or (s.d <= MOST and s.e <= MOST and s.f <= MOST))
        and (not r or (p.holds.r <= 2 * MOST and p.holds.z <= 2 * MOST))
end

-- Is it a set of permits?
local function has_permits(key)
    local list = redis.pcall("ZRANGE", key, 0, 3)
    for i = 1, #list do
        if list[i] == "@" then
            return true
        end
    end
    return false
end

-- The state of a key, and whether what is there is none of ours. `p.other` says
-- that it is not of this part's limit.
local function read(p)
    if p.kind == "permits" then
        return read_permits(p)
    end
    local value = redis.pcall("GET", p.key)
    if not value then
        return { a = 0, b = 0, c = 0 }, false
    end
    p.other = true
    if type(value) ~= "string" then
        p.alien = not has_permits(p.key)
        return { a = 0, b = 0, c = 0 }, not p.alien
    end
    local shape, a, b, c, more =
        string.match(value, "^1:(%d+):(%d+):(%d+):(%d+)(.*)$")
    a, b, c = tonumber(a), tonumber(b), tonumber(c)
    if not shape or a > MOST or b > MOST + 1 or c > MOST then
        return { a = 0, b = 0, c = 0 }, true
    elseif shape ~= p.shape then
        return { a = 0, b = 0, c = 0 }, false
    end
    local state = { a = a, b = b, c = c }
    if more ~= "" and not read_more(p, state, more) then
        p.holds = nil
        return { a = 0, b = 0, c = 0 }, true
    end
    p.other = false
    return state, false
end

-- What is held of a key is beside it, in its slot.
local function set_of(p)
    local open = string.find(p.key, "{", 1, true)
    local close = open and string.find(p.key, "}", open + 1, true)
    if p.kind == "permits" then
        return p.key
    elseif close and close > open + 1 then
        return p.key .. "#holds"
    end
    return "{" .. p.key .. "}#holds"
end

-- The holds of a key expire with the key: a take long after their expiry must
-- find them to refund them.
local function write(p, s)
    if p.kind == "permits" then
        write_permits(p, s)
        return
    elseif s.b == 0 and s.c == 0 and not p.holds then
        redis.call("DEL", p.key)
        return
    end
    local life = p.algorithm[3](p, s, now)
    local ttl = life and div(life, 1000) + MARGIN or FOR_GOOD
    local value =
        string.format("1:%s:%.0f:%.0f:%.0f", p.shape, s.a, s.b, s.c)
    if s.d then
        value = value .. string.format(":%.0f:%.0f:%.0f", s.d, s.e, s.f)
    end
    if p.holds then
        local h = p.holds
        value = value .. string.format(";%.0f;%.0f;%.0f;%.0f;%.0f", h.r, h.x,
            h.z, h.g, now)
        ttl = max(ttl, div(max(h.z - now, 0), 1000) + MARGIN)
    end
    if p.held then -- by the words of then, which may not know this period
        ttl = max(ttl, redis.call("PTTL", p.key))
    end
    redis.call("SET", p.key, value, "PX", whole(min(ttl, FOR_GOOD)))
    if p.holds then
        redis.call("PEXPIRE", set_of(p), whole(min(ttl, FOR_GOOD)))
    end
end

-- Of what was taken at `when`. What is held of a bucket must know of it.
local function give_back(p, when)
    local r = p.algorithm[2](p, p.state, -p.cost, min(when, now), now)
    local used_at = p.algorithm[7] and p.algorithm[6] -- of a bucket
    if p.holds and used_at then
        local at, written = judged(now, p.state.a)
        local used = used_at(p, p.state, written, at)
        local back = max(used - r.next.b, 0)
        p.holds.r, p.holds.g = p.holds.r + back, p.holds.g + back
        p.changed = true
    end
    return r
end

local function same(a, b)
    return a.a == b.a and a.b == b.b and a.c == b.c and a.d == b.d
        and a.e == b.e and a.f == b.f
end
