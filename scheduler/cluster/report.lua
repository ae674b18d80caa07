-- report records that a node is alive, and claims its name for its process.
-- KEYS[1] zset: node -> time of its last report, ms; KEYS[2] the claim on the name;
-- KEYS[3] epoch: "id born"
-- ARGV    node, place, nonce, ttl in ms, how long nodes are remembered in ms,
--         leave (0 or 1)
-- Reply   {0, claim}: another process has the name
--         {1, now in µs, born, {node, ms since its last report, ...}}
-- A claim is "place nonce". A process at the same place is the successor.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local claim = redis.call('GET', KEYS[2])
if claim and string.sub(claim, 1, #ARGV[2] + 1) ~= ARGV[2] .. ' ' then return {0, claim} end
if ARGV[6] == '1' then
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {1, t[1] .. string.format('%06d', tonumber(t[2])), 0, {}}
end
redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
local epoch, born = redis.call('GET', KEYS[3]), now
if epoch then
  born = tonumber(string.match(epoch, '(%d+)$'))
else
  redis.call('SET', KEYS[3], ARGV[3] .. ' ' .. string.format('%.0f', now))
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[5]))
redis.call('ZADD', KEYS[1], now, ARGV[1])
local nodes, scores = {}, redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #scores, 2 do
  nodes[#nodes + 1] = scores[i]
  nodes[#nodes + 1] = now - tonumber(scores[i + 1])
end
return {1, t[1] .. string.format('%06d', tonumber(t[2])), born, nodes}
