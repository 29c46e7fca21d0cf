DELETE FROM main.tidewire_subscriptions WHERE id = ?1
