-- epoch begins a new epoch if the server is not the one of the last epoch.
-- KEYS[1] epoch: "id born"; KEYS[2] the server's run_id in this epoch
-- ARGV    run_id, nonce
-- Reply   born, ms of the server's clock
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local epoch, run = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if epoch and run == ARGV[1] then return tonumber(string.match(epoch, '(%d+)$')) end
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. string.format('%.0f', now))
redis.call('SET', KEYS[2], ARGV[1])
return now
