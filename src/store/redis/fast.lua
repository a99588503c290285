-- fast.lua -- the usual case, before all else: a set of token buckets and fixed
-- windows is taken, no part denies it, and penalties have no failures.
--
-- A script is run from its first line, and whatever it defines it makes anew
-- each time: most of its time went there. This stands first and needs nothing of
-- what follows. Whatever is not usual (a refusal, another kind, a value that is
-- leased, held, from the future or none of ours, numbers beyond 2^53) is left as
-- it was found, and the rest of the script is run.
--
-- It says what kinds.lua says; test/conform compares both with core/.

if ARGV[1] == "take" and #ARGV == 2 + 12 * #KEYS then
    local MOST, fmod = 9007199254740991, math.fmod
    local reply, values, lives = { 1, 0, 0 }, {}, {}
    local now, margin

    if string.byte(ARGV[2]) == 126 then -- "~": the server's time
        local time = redis.pcall("TIME")
        now = time[1] and time[1] * 1000000 + time[2]
        margin = 1000
    else
        now = tonumber(ARGV[2])
        margin = 86400000
    end
    for i = 1, now and #KEYS or 0 do
        local at = i * 12 - 9
        local kind, cost = ARGV[at], ARGV[at + 7] + 0
        local capacity = ARGV[at + 3] + 0
        local value = cost > 0 and ARGV[at + 11] == "0"
            and (kind == "bucket" or kind == "fixed")
            and redis.pcall("GET", KEYS[i])
        local unknown = kind == "penalty" and cost == 0
            and redis.pcall("GET", KEYS[i]) == false
        local shape, a, b = ARGV[at + 1], now, 0 -- a new key has used nothing
        if type(value) == "string" then
            shape, a, b = string.match(value, "^1:(%d+):(%d+):(%d+):0$")
            a, b = tonumber(a), tonumber(b)
        elseif value or cost < 1 or ARGV[at + 11] ~= "0" then
            a = nil
        end
        if unknown then -- a penalty without failures
            reply[i * 5 - 1], reply[i * 5] = 0, capacity
            reply[i * 5 + 1], reply[i * 5 + 2] = -1, 0
            values[i] = false
        elseif not a or shape ~= ARGV[at + 1] or a > now or b > MOST then
            break
        elseif kind == "bucket" then
            local count, grain = ARGV[at + 2] + 0, ARGV[at + 5] + 0
            local token = ARGV[at + 6] + 0
            local poured = (now - a) * count
            if poured > MOST then
                break
            end
            local used = b - (poured - fmod(poured, grain)) / grain
            used = (used > 0 and used or 0) + cost * token
            local left = capacity * token - used
            local need = used * grain
            if left < 0 or need > MOST then
                break
            end
            local over = fmod(need, count)
            local reset = (need - over) / count + (over > 0 and 1 or 0)
            reply[i * 5 - 1], reply[i * 5] = 0, (left - fmod(left, token)) / token
            reply[i * 5 + 1], reply[i * 5 + 2] = -1, reset
            values[i] = string.format("1:%s:%.0f:%.0f:0", shape, now, used)
            lives[i] = (reset - fmod(reset, 1000)) / 1000 + margin
        elseif kind == "fixed" then
            local span = ARGV[at + 4] + 0
            local start = now - fmod(now, span)
            local taken = (a >= start and b or 0) + cost
            if taken > capacity then
                break
            end
            local reset = start + span - now
            reply[i * 5 - 1], reply[i * 5] = 0, capacity - taken
            reply[i * 5 + 1], reply[i * 5 + 2] = -1, reset
            values[i] = string.format("1:%s:%.0f:%.0f:0", shape, now, taken)
            lives[i] = (reset - fmod(reset, 1000)) / 1000 + margin
        else
            break
        end
        reply[i * 5 + 3] = 0
    end
    if #values == #KEYS and now then
        reply[2] = now
        for i = 1, #KEYS do
            if values[i] then
                redis.call("SET", KEYS[i], values[i], "PX", lives[i])
            end
        end
        return reply
    end
end
