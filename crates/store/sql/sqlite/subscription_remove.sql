DELETE FROM tidewire_subscriptions WHERE id = ?1
