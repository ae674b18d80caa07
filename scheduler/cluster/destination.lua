-- destination records that a destination is dead, deletes the record, or only reads it.
-- KEYS[1] "node reason", which lives until the node tries the destination again
-- ARGV    ms until then (0: read; below 0: delete), "node reason"
-- Reply   {ms for which the record lives, "node reason"} as of before the call; {}: none
local span, left = tonumber(ARGV[1]), math.max(0, redis.call('PTTL', KEYS[1]))
local reply = {}
if left > 0 then reply = {left, redis.call('GET', KEYS[1])} end
if span < 0 then
  redis.call('DEL', KEYS[1])
elseif span > left then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', span)
end
return reply
